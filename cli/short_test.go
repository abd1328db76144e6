//go:build !soak

package cli_test

// timed says that waits are compared with the clock. `make test` shares its machine with
// itself, and runs change their pace; there, waits are held to the rows.
const timed = false
