//go:build !soak

package cli_test

// liveError is how far off the wait may be that `size --live` says: `make test` shares its
// machine with itself, and runs change their pace. `make soak` is strict.
const liveError = 1.5
