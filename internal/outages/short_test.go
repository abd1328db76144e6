package outages

import "time"

// short is what `make test` has time for.
var short = trial{deliveries: 200, lease: 3 * time.Second, outage: 3 * time.Second}
