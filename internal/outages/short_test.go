package outages

import "time"

// short is what `make test` has time for. What was lost waits for its lease and two
// polls; whoever waited for the server comes back within a backoff step; and a busy
// machine is given as much again and more.
var short = trial{
	deliveries: 200, lease: 3 * time.Second, outage: 3 * time.Second,
	recovery: 3*time.Second + 2*poll + 8*time.Second + 20*time.Second,
}
