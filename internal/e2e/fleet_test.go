package e2e

import (
	"testing"
)

// member is a place in the fleet where one process after another runs, each
// started when the one before it was killed.
type member struct {
	t     *testing.T
	args  []string
	hooks []string // what each process is to die of, in turn; the rest are to live
	run   *process
	kills int
}

// tend starts the next process if the last is gone. To end in any other way
// than by being killed is a failure.
func (m *member) tend() {
	m.t.Helper()
	if m.run != nil && m.run.running() {
		return
	}
	if m.run != nil {
		if !m.run.killed() {
			m.t.Fatalf("%s ended by itself: %s\n%s", m.run.name, m.run.cmd.ProcessState, m.run.err.String())
		}
		m.kills++
	}
	args := m.args
	if len(m.hooks) > 0 {
		args = append(args[:len(args):len(args)], "-at", m.hooks[0])
		m.hooks = m.hooks[1:]
	}
	m.run = start(m.t, testappBin, args...)
}

// kill is kill -9 from outside, wherever the process happens to be.
func (m *member) kill() {
	if m.run != nil {
		m.run.kill()
	}
}
