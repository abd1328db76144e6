//go:build soak

package cli_test

// timed says that waits are compared with the clock, on a machine at rest.
const timed = true
