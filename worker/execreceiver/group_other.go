//go:build !unix

package execreceiver

import (
	"os"
	"os/exec"
)

// There are no process groups here, and no signal to ask a process to end with: the
// command itself is killed, and what it started is not.

func ownGroup(*exec.Cmd) {}

func terminate(leader *os.Process) error { return leader.Kill() }

func kill(leader *os.Process) error { return leader.Kill() }
