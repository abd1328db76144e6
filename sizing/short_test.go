//go:build !soak

package sizing

const soak = false
