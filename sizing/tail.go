package sizing

import "math"

// normalQuantile returns z such that a normal variable is below it with probability p.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// erlangExact is up to how many workers Erlang's formula is worked out one by one.
const erlangExact = 10_000

// erlangC returns the probability that a row has to wait at all, with that many
// workers and an offered load of so many busy ones. It is 1 where the load is all
// that the workers can do.
func erlangC(workers int, load float64) float64 {
	w := float64(workers)
	if load >= w {
		return 1
	}
	if load <= 0 {
		return 0
	}
	if workers > erlangExact { // Halfin and Whitt's limit is exact to a thousandth there
		beta := (1 - load/w) * math.Sqrt(w)
		density := math.Exp(-beta*beta/2) / math.Sqrt(2*math.Pi)
		return density / (density + beta*(1-0.5*math.Erfc(beta/math.Sqrt2)))
	}
	// Erlang B by its recurrence, as 1/B so that nothing cancels. It may become
	// infinite, and B is 0 then.
	inverse := 1.0
	for k := 1.0; k <= w; k++ {
		inverse = 1 + inverse*k/load
	}
	b := 1 / inverse
	return b / (1 - (load/w)*(1-b))
}
