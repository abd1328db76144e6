//go:build !soak

package protocoltest

// Seconds. The soak looks for longer.
const (
	checksOnSQLite   = 50
	checksOnPostgres = 40
	stepsOnAverage   = "80"
)
