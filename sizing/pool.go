package sizing

import (
	"math"
	"time"
)

// pool is the workers behind a queue. Of its three figures two tell the third.
type pool struct {
	workers int
	drain   float64 // rows a second
	service float64 // seconds of a run
}

// readPool reads what was given of a pool, and fills in the rest: workers and drain
// by those of usual, where neither they nor the two others were given.
func (r *reader) readPool(workers Figure[int], drain Figure[float64], service Figure[time.Duration], usual pool) pool {
	p := usual
	run := service.Value.Seconds()
	var ofWorkers, ofDrain, ofService string // how each is worked out
	if busy := drain.Value * run; drain.Given() && service.Given() && busy > 0 {
		p.workers, ofWorkers = atLeastOne(busy), "drain × service"
	}
	p.workers = read(r, "workers", workers, fromOne, p.workers, ofWorkers)
	if service.Given() {
		// What is not positive is refused below.
		p.drain, ofDrain = float64(p.workers)/max(run, 1e-9), "workers ÷ service"
	}
	p.drain = read(r, "drain_per_second", drain, positive, p.drain, ofDrain)
	p.service, ofService = float64(p.workers)/p.drain, "workers ÷ drain"
	worked := time.Duration(math.Round(min(max(1e-9, p.service), longest.Seconds()) * 1e9))
	given := read(r, "service_seconds", service, positive, worked, ofService).Seconds()
	if service.Given() && workers.Given() {
		p.service = given
	}
	return p
}

// atLeastOne rounds a number of workers, and keeps it in bounds.
func atLeastOne(value float64) int { return int(min(max(1, math.Round(value)), mostWorkers)) }
