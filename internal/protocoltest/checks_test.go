//go:build !soak

package protocoltest

// Seconds. The soak looks for longer.
const (
	checksOnSQLite   = 40
	checksOnPostgres = 30
	stepsOnAverage   = "80"
)
