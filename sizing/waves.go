package sizing

import "math"

// mostWaves is how often rows may be sent again before that counts as never.
const mostWaves = 1_000_000

// waves sums up the stale copies of a burst that is handed off at once. What the
// workers do not start within a lease lapses all together and stands again behind
// itself: of n copies in a wave, n stale ones are passed first, and lease × drain less
// their cost of rows start in time.
func (b Burst) waves() (stale float64, converges bool) {
	held := b.held() * b.Drain
	wave := max(0, float64(b.Rows)-held)
	if wave > 0 && wave*b.StaleShare >= held {
		return wave, false
	}
	for n := 0; wave > 0; n++ {
		if n == mostWaves {
			return stale, false
		}
		stale += wave
		wave = max(0, wave*(1+b.StaleShare)-held)
	}
	return stale, true
}

// collapse is the least number of rows with which the burst never gets done: those
// that start within a lease, and so many more that to pass their stale copies takes
// the whole of another. Relays that send slower than workers throw stale copies away
// cannot bring that about.
func (b Burst) collapse() int {
	if b.StaleShare == 0 || b.RelayRate > 0 && b.RelayRate < b.Drain/b.StaleShare {
		return 0
	}
	rows := math.Ceil(b.held() * b.Drain * (1 + 1/b.StaleShare))
	if rows > 1e15 {
		return 0
	}
	return int(rows)
}
