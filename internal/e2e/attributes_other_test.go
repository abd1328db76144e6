//go:build !linux

package e2e

import "syscall"

// mortal does nothing here: a test process that is killed leaves its programs
// behind.
func mortal() *syscall.SysProcAttr { return nil }
