//go:build !soak

package protocoltest

// Seconds. The soak looks for longer.
const (
	checksOnSQLite    = 40
	checksOnPostgres  = 30
	checksOnReference = 300
	checksOnWeak      = 2000 // at most: it ends with the first that finds something
	stepsOnAverage    = "80"
)
