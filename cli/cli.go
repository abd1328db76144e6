// Package cli is every subcommand of the standalone binaries, as a library: cmd/bridge
// and cmd/worker are Bridge and Worker over a declarations file, and a team's own
// program has all of it over its own receivers with
//
//	func main() { os.Exit(cli.Main(registry())) }
//
// which is one binary for relays, workers and operators. With --receivers a file's
// receivers run beside those written in Go.
//
// What it needs is --store and --backend, or WAYBILL_STORE and WAYBILL_BACKEND;
// docs/operations.md has every flag and variable. Receivers that fire find the store
// by postgres.StoreFrom and sqlite.StoreFrom. A program that wants middleware, an
// Observer or an eager worker builds its relays and workers itself.
//
// # Exit codes
//
// 0 is done, 1 is failed, 2 is wrong usage, and 4 to 6 are verdicts of size --check
// and simulate. A failure is one line on standard
// error that says what is wrong and what to do.
//
// # Signals
//
// The first SIGTERM or SIGINT lets a relay finish and a worker drain, which is exit code
// 0; a second one ends the process at once with 128 and the signal's number. SIGHUP has
// a relay or a worker read the file of --receivers anew: a file with mistakes, or
// one that the process could not follow without a restart, changes nothing and is an
// error in the log. What is declared in Go stays.
package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Main runs a team's own program under the name that it was called by, and returns the
// exit code; see Program.
func Main(reg *waybill.Registry) int {
	root := Program(reg)
	root.Use = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	return Run(root)
}

// Run runs a command with the process's arguments and signals, and returns the
// exit code.
func Run(cmd *cobra.Command) int {
	// That library writes to standard error by itself, while its errors are told
	// in a line of ours.
	asynq.LogRedis(slog.Default())
	ctx, stop := withSignals(context.Background(), os.Exit)
	defer stop()
	return Execute(ctx, cmd, os.Args[1:])
}

// Execute runs a command with the given arguments, reports its error on the
// command's standard error, and returns the exit code.
func Execute(ctx context.Context, cmd *cobra.Command, args []string) int {
	cmd.SetArgs(args)
	cmd.SilenceErrors = true
	cmd.SilenceUsage = true
	ran, err := cmd.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = &failure{errors.New("interrupted")}
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			report(cmd, exit.err)
		}
		return exit.code
	}
	var usage *usageError
	var failed *failure
	if errors.As(err, &usage) || !errors.As(err, &failed) {
		err = fmt.Errorf("%s: see '%s --help'", oneLine(err.Error()), ran.CommandPath())
		report(cmd, err)
		return exitUsage
	}
	report(cmd, err)
	return exitFailed
}

// report writes an error as one line; those of a declarations file as a line for
// each mistake.
func report(cmd *cobra.Command, err error) {
	lines := []string{oneLine(err.Error())}
	var many *mistakes
	if errors.As(err, &many) {
		lines = strings.Split(many.Error(), "\n")
	}
	for _, line := range lines {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.Name(), renamed(cmd, oneLine(line)))
	}
}

// mistakes are the errors of declarations, a line each.
type mistakes struct{ error }

// oneLine joins the lines of a text.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' || c == '\t' })
	return strings.Join(lines, " ")
}

// usageError is a command that was called in a way that cannot be meant.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// failure is an error of a command that ran. What cobra returns by itself, about
// flags and arguments, never is one.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// running marks the errors of a command as failures.
func running(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); err != nil {
			return &failure{err}
		}
		return nil
	}
}

// unlessStopped is the error of a command that runs until it is told to stop, but for
// that of a start which was cut short by being told so: that is a stop like any other.
func unlessStopped(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// cutShort is the error of asking a server, unless it was cut short by the end of ctx:
// then that is all there is to say, and not what the server may be like.
func cutShort(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
