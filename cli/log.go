package cli

import (
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// logger makes the log of a command, on its standard error.
func (a *app) logger(cmd *cobra.Command) (*slog.Logger, error) {
	var level slog.Level
	switch a.logLevel {
	case "debug", "info", "warn", "error":
		_ = level.UnmarshalText([]byte(a.logLevel)) // knows each of these
	default:
		return nil, usagef("--log-level %s: want debug, info, warn or error", a.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	out := cmd.ErrOrStderr()
	switch {
	case a.logFormat == "text", a.logFormat == "auto" && isTerminal(out):
		return slog.New(slog.NewTextHandler(out, options)), nil
	case a.logFormat == "json", a.logFormat == "auto":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	default:
		return nil, usagef("--log-format %s: want text, json or auto", a.logFormat)
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
