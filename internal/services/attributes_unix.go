//go:build unix && !linux

package services

import "syscall"

// attributes runs the program as user, if one is given. A test process that is
// killed leaves its servers behind here.
func attributes(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: user}
}
