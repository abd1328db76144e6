//go:build soak

package sizing

// soak has the tables run in full, and the invariants over more lanes.
const soak = true
