package e2e

import "syscall"

// mortal has the kernel kill the program when the thread that started it ends.
func mortal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
