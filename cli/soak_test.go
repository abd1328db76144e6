//go:build soak

package cli_test

// liveError is how far off the wait may be that `size --live` says.
const liveError = 0.1
