package services

import "syscall"

// attributes has the kernel kill the program when the thread that started it
// ends, and runs it as user, if one is given.
func attributes(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: user}
}
