//go:build unix

package execreceiver

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group, whose number is its own.
// Signals of a terminal do not reach it then: whoever stops the worker lets it finish.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the whole group to end.
func terminate(leader *os.Process) error { return signal(leader, syscall.SIGTERM) }

// kill ends the whole group.
func kill(leader *os.Process) error { return signal(leader, syscall.SIGKILL) }

func signal(leader *os.Process, s syscall.Signal) error {
	err := syscall.Kill(-leader.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
