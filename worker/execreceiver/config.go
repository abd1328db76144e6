// Package execreceiver delivers events to a command: it makes the run function of a
// receiver that starts a program, hands it the event's payload and reads its outcome
// from how it exits.
//
// The payload is on standard input, byte for byte. The environment says which delivery
// it is:
//
//	WAYBILL_DELIVERY_ID    the delivery's id: the same at every attempt
//	WAYBILL_EVENT          the event's name
//	WAYBILL_EVENT_ID       the event's id: the same for every receiver of it
//	WAYBILL_EVENT_VERSION  the version that its payload was recorded in
//	WAYBILL_CORRELATION_ID the same for all that came of one beginning
//	WAYBILL_ATTEMPT        1 for the first run
//	WAYBILL_RECEIVER       the receiver's key
//	WAYBILL_TARGET         the target of a fan-out; absent otherwise
//
// Beside these and Config.Env the command gets PATH, HOME, USER, LOGNAME, SHELL, TZ,
// TMPDIR and the variables of the locale, and nothing more: the environment of a worker
// holds the passwords of its database and its queue.
//
// The outcome:
//
//	exit 0                    succeeded, whether it read the payload or not
//	exit 75                   EX_TEMPFAIL: waybill.Defer, spends no attempt where the
//	                          receiver declares give-up-after
//	one of PermanentExit      waybill.Permanent: dead at once
//	any other exit, a signal  an ordinary error: the receiver's backoff
//
// That is how httpreceiver treats 2xx, 503 with Retry-After, 410 and all else; a
// command cannot say when to come again, so Config.DeferFor does. The end of what it wrote to
// standard error is part of the error. Standard output is logged at DEBUG.
//
// # No shell
//
// Command is a program and its arguments, as they are: nothing in them is expanded,
// split or joined, and an event cannot add to them. Where a shell is wanted it is the
// program: {"/bin/sh", "-c", "jq .id | xargs …"}.
//
// # The end of a run
//
// A command is the leader of a process group of its own, and the run is the group's.
// When the leader has exited, what it left in the group is killed: a run that has
// an outcome goes on nowhere. What should go on has to leave the group (setsid). Where the run's
// time is over, or the worker has no more patience, the group gets SIGTERM, and SIGKILL
// after a second (a twentieth of the lease, if that is less): that lies before the
// lease's end, and before the worker leaves a receiver behind. When the lease is lost it gets SIGKILL at
// once, because another run may have begun. After either the exit code counts no more:
// many a program exits with 0 when it is told to stop. On Windows only the command
// itself is killed, at once.
//
// # Guarantees
//
// Delivery is at least once: a command whose worker died runs again, with the same
// WAYBILL_DELIVERY_ID, and if the worker was killed by SIGKILL the first one may still
// be running. What a command writes is kept to a few KiB, however much that is.
package execreceiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// DefaultDeferFor is how long exit 75 defers.
const DefaultDeferFor = time.Minute

// tempFail is EX_TEMPFAIL of sysexits.h.
const tempFail = 75

// Config says what a receiver's deliveries are handed to.
type Config struct {
	// Command is the program and its arguments. A name without a slash is looked for in
	// the PATH of this process; a path that is not absolute begins in Dir.
	Command []string
	// Dir is where the command runs. Defaults to the directory of this process.
	Dir string
	// Env are variables for the command, none of those that the package comment names.
	// Their values appear in no error and no log, as they may be secrets.
	Env map[string]string
	// Timeout bounds a run. One that leaves no time to record the outcome within
	// the lease is cut to what does: the lease, less a fifth or ten seconds. Longer than
	// the lease it is kept, for a receiver that declares heartbeat. Defaults to that.
	Timeout time.Duration
	// DeferFor is how long exit 75 asks to wait. Defaults to 1m.
	DeferFor time.Duration
	// PermanentExit are the exit codes that no later attempt can mend, 65 (EX_DATAERR),
	// say. Defaults to none.
	PermanentExit []int
	// Logger gets what the command writes, at DEBUG. Defaults to the run's own,
	// waybill.LoggerFrom.
	Logger *slog.Logger
}

// Check says what is wrong with the Config wherever it is used. It does not look for
// the program, which need be on no machine but those that run it.
func (c Config) Check() error {
	switch {
	case len(c.Command) == 0:
		return errors.New("command is empty; want a program and its arguments")
	case c.Command[0] == "":
		return errors.New("command has an empty name of a program")
	case c.Timeout < 0:
		return fmt.Errorf("timeout %s is negative", c.Timeout)
	case c.DeferFor < 0:
		return fmt.Errorf("defer-for %s is negative", c.DeferFor)
	case strings.ContainsRune(c.Dir, 0):
		return errors.New("dir holds a NUL")
	}
	for _, argument := range c.Command {
		if strings.ContainsRune(argument, 0) {
			return errors.New("command holds a NUL")
		}
	}
	for i, code := range c.PermanentExit {
		switch {
		case code < 1 || code > 255:
			return fmt.Errorf("permanent exit code %d: want 1 to 255", code)
		case code == tempFail:
			return fmt.Errorf("permanent exit code %d: that is the one of a temporary failure, which defers", code)
		case slices.Contains(c.PermanentExit[:i], code):
			return fmt.Errorf("permanent exit code %d is there twice", code)
		}
	}
	return checkEnv(c.Env)
}

// New returns the run function of a receiver, or what is wrong with the Config: the
// program has to be there, and executable, and so has Dir.
//
//	reg.Add(waybill.Receiver{Key: "stock.export", Event: "stock.counted", Run: run, Options: waybill.Options{Lane: "stock"}})
func New(config Config) (func(ctx context.Context, d *waybill.Delivery) error, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	dir, err := findDir(config.Dir)
	if err != nil {
		return nil, err
	}
	path, err := findProgram(dir, config.Command[0])
	if err != nil {
		return nil, err
	}
	c := &command{
		path: path, argv: slices.Clone(config.Command), dir: dir, env: environment(config.Env),
		timeout: config.Timeout, deferFor: config.DeferFor, permanent: slices.Clone(config.PermanentExit),
		log: config.Logger, hide: secretsOf(config.Env),
	}
	if c.deferFor == 0 {
		c.deferFor = DefaultDeferFor
	}
	return c.run, nil
}

// findDir makes a directory absolute, so that it stays the same one.
func findDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("dir: %w", err)
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("dir: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("dir: %s is not a directory", dir)
	}
	return dir, nil
}

// findProgram returns the absolute path of an executable file.
func findProgram(dir, name string) (string, error) {
	if strings.ContainsRune(filepath.ToSlash(name), '/') && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
		if dir == "" { // Join would make a name for PATH of ./name
			name = "." + string(filepath.Separator) + name
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		var why *exec.Error
		if errors.As(err, &why) {
			err = why.Err
		}
		return "", fmt.Errorf("command: %q: %w", name, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("command: %w", err)
	}
	return path, nil
}
