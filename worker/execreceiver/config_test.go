//go:build unix

package execreceiver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/worker/execreceiver"
)

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	with := func(change func(c *execreceiver.Config)) execreceiver.Config {
		config := execreceiver.Config{Command: []string{"no-such-program"}, Dir: "/no/such/dir"}
		change(&config)
		return config
	}
	tests := []struct {
		name   string
		change func(c *execreceiver.Config)
		want   string
	}{
		{"no command", func(c *execreceiver.Config) { c.Command = nil }, "command is empty"},
		{"a program without a name", func(c *execreceiver.Config) { c.Command = []string{"", "-c"} }, "command has an empty name"},
		{"a NUL in an argument", func(c *execreceiver.Config) { c.Command = []string{"sh", "a\x00b"} }, "command holds a NUL"},
		{"a NUL in the directory", func(c *execreceiver.Config) { c.Dir = "a\x00b" }, "dir holds a NUL"},
		{"a negative timeout", func(c *execreceiver.Config) { c.Timeout = -time.Second }, "timeout -1s is negative"},
		{"a negative wait", func(c *execreceiver.Config) { c.DeferFor = -time.Second }, "defer-for -1s is negative"},
		{"success that is permanent", func(c *execreceiver.Config) { c.PermanentExit = []int{0} }, "permanent exit code 0: want 1 to 255"},
		{"a code that no process has", func(c *execreceiver.Config) { c.PermanentExit = []int{65, 256} }, "permanent exit code 256"},
		{"a temporary failure that is permanent", func(c *execreceiver.Config) { c.PermanentExit = []int{75} }, "75: that is the one of a temporary failure"},
		{"a code twice", func(c *execreceiver.Config) { c.PermanentExit = []int{65, 66, 65} }, "65 is there twice"},
		{"a variable of ours", func(c *execreceiver.Config) { c.Env = map[string]string{"WAYBILL_EVENT": "topsecret"} }, "env WAYBILL_EVENT is set by the delivery"},
		{"a variable without a name", func(c *execreceiver.Config) { c.Env = map[string]string{"": "topsecret"} }, `env "" is not`},
		{"a variable with an equals sign", func(c *execreceiver.Config) { c.Env = map[string]string{"A=B": "topsecret"} }, `env "A=B" is not`},
		{"a variable that begins with a digit", func(c *execreceiver.Config) { c.Env = map[string]string{"1A": "topsecret"} }, `env "1A" is not`},
		{"a value with a NUL", func(c *execreceiver.Config) { c.Env = map[string]string{"A1": "top\x00secret"} }, "env A1: its value holds a NUL"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := with(test.change)
			_, err := execreceiver.New(config)
			for _, err := range []error{config.Check(), err} {
				if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("the error is %v, want %q in it and no secret", err, test.want)
				}
			}
		})
	}
	if err := with(func(c *execreceiver.Config) { c.Env = map[string]string{"WAYBILL_STORE": "sqlite:x"} }).Check(); err != nil {
		t.Errorf("Check of what may be somewhere: %v", err)
	}
}

// What runs the command is looked for at once, and by those only that run it.
func TestNewLooksForTheProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "hook")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		config execreceiver.Config
		want   string
	}{
		{"not in PATH", execreceiver.Config{Command: []string{"no-such-program"}}, `command: "no-such-program": executable file not found in $PATH`},
		{"no such file", execreceiver.Config{Command: []string{"/no/such/hook"}}, `command: "/no/such/hook": `},
		{"no such file in the directory", execreceiver.Config{Command: []string{"./other"}, Dir: dir}, "no such file"},
		{"not executable", execreceiver.Config{Command: []string{"./hook"}, Dir: dir}, "permission denied"},
		{"a directory", execreceiver.Config{Command: []string{dir}}, `command: "` + dir + `": `},
		{"no such directory", execreceiver.Config{Command: []string{"sh"}, Dir: "/no/such/dir"}, "dir: stat /no/such/dir"},
		{"a directory that is a file", execreceiver.Config{Command: []string{"sh"}, Dir: script}, "is not a directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := execreceiver.New(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New: %v, want %q in the error", err, test.want)
			}
			if err := test.config.Check(); err != nil {
				t.Errorf("Check: %v, want nothing of this machine", err)
			}
		})
	}
}

// A path that is not absolute begins in Dir, also where it goes up.
func TestAPathBeginsInDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	sh := "/bin/sh" // a link: a file that was just written may be busy in another test's child
	if err := os.Symlink(sh, filepath.Join(dir, "hook")); err != nil {
		t.Fatal(err)
	}
	config := execreceiver.Config{Command: []string{"../hook", "-c", "echo $0 >out", "first"}, Dir: filepath.Join(dir, "sub")}
	if err := run(t, config, delivery()); err != nil {
		t.Fatalf("outcome: %v", err)
	}
	if got := read(t, dir, "sub", "out"); got != "first\n" {
		t.Errorf("it ran with the argument %q", got)
	}
}
