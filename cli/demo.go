package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli/demo"
	"github.com/waybill-go/waybill/internal/wire"
)

// nextSteps is what the demo says at its end.
const nextSteps = `Next, with your own database and queue (export WAYBILL_STORE, WAYBILL_BACKEND and WAYBILL_RECEIVERS, or use flags):
  bridge migrate && bridge fire order.placed --payload '{"id":1}'
  bridge relay & worker & bridge status
`

func demoCommand(a *app) *cobra.Command {
	var config demo.Config
	var file string
	asJSON := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch deliveries go through a queue, with nothing installed",
		Long: `Watch deliveries go through a queue, with nothing installed.

A few hundred events are fired into a SQLite file in a temporary folder, and go
through a queue to two workers: asynq on a Redis inside this process, river in the
same file, or local. One receiver fails twice, one always fails, one stalls past its
lease, one is transactional, one fans out; and some messages arrive after their
lease. The ledger at the end says what came of it all. The exit code is 0 only if it
balances.

With --store the outbox is in a schema of its own in that database, and with a URL
as --backend the queues are there, under names of their own. All of it is removed at
the end. A database or a queue that only the environment names is left alone.`,
		Example: `  bridge demo
  bridge demo --backend river
  bridge demo --file events.jsonl
  bridge demo --backend local --json
  bridge demo --store postgres://app:secret@localhost:5432/app --backend river:
  bridge demo --store postgres://app:secret@localhost:5432/app --backend amqp://localhost`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error {
			if err := checkDemoFlags(config); err != nil {
				return err
			}
			if file != "" {
				events, err := readEvents(cmd, file)
				if err != nil {
					return err
				}
				config.Events = events
			}
			return a.demo(cmd, config, asJSON)
		}),
	}
	// Not the global flags, which the environment may set.
	cmd.Flags().StringVar(&config.Store, "store", "", "postgres:// `URL` of a database to make a schema in (default a SQLite file that is removed)")
	cmd.Flags().StringVar(&config.Backend, "backend", demo.Asynq, "asynq, river or local, or the `URL` of a backend to make queues on")
	cmd.Flags().StringVar(&file, "file", "", "`file` of events to fire instead, one JSON object a line; - is standard input")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the ledger as JSON")
	return cmd
}

// checkDemoFlags refuses, beside what is neither a name nor a URL, the files of
// others: the demo has one of its own.
func checkDemoFlags(config demo.Config) error {
	isURL := strings.Contains(config.Backend, ":")
	switch {
	case !isURL && !slices.Contains([]string{demo.Asynq, demo.River, demo.Local}, config.Backend):
		return usagef("--backend %s: want asynq, river or local, which need nothing, or a backend's URL", config.Backend)
	case hasScheme(config.Backend, "river+sqlite"):
		return usagef("--backend: the demo makes a SQLite file of its own, and touches no other: use --backend river")
	case hasScheme(config.Store, "sqlite"):
		return usagef("--store: the demo makes a SQLite file of its own, and touches no other: leave out --store")
	}
	return nil
}

func hasScheme(rawURL, scheme string) bool {
	name, _, ok := strings.Cut(rawURL, ":")
	return ok && strings.EqualFold(name, scheme)
}

func readEvents(cmd *cobra.Command, path string) (events []waybill.RawEvent, err error) {
	lines, err := openLines(cmd.InOrStdin(), path)
	if err != nil {
		return nil, err
	}
	defer lines.close()
	err = lines.each(cmd.Context(), func(chunk []wire.Event) error {
		for _, event := range chunk {
			events = append(events, event.RawEvent)
		}
		return nil
	})
	return events, err
}

func (a *app) demo(cmd *cobra.Command, config demo.Config, asJSON bool) (err error) {
	if cmd.Flags().Changed("log-level") { // else quiet: things go wrong on purpose
		if config.Logger, err = a.logger(cmd); err != nil {
			return err
		}
	}
	shown := newProgress(cmd.ErrOrStderr())
	config.Progress = shown.show
	config.Made = func(what []string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "made %s; all of it is removed at the end\n", strings.Join(what, ", "))
	}
	ledger, err := demo.Run(cmd.Context(), config)
	shown.end()
	if errors.Is(err, context.DeadlineExceeded) && config.Logger == nil {
		return fmt.Errorf("demo: %w: --log-level warn shows why", err)
	}
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(ledger)
	} else {
		ledger.Print(cmd.OutOrStdout())
		_, err = io.WriteString(cmd.OutOrStdout(), renamed(cmd.Root(), nextSteps))
	}
	if err != nil {
		return err
	}
	if err := ledger.Balance(); err != nil {
		return fmt.Errorf("demo: the ledger does not balance: %w", err)
	}
	return nil
}

// progress draws one line over and over on a terminal; elsewhere it says how far
// things are now and then.
type progress struct {
	out      io.Writer
	terminal bool
	saidAt   time.Duration
	width    int
}

// sayEvery is the time between two lines where there is no terminal.
const sayEvery = 5 * time.Second

func newProgress(out io.Writer) *progress { return &progress{out: out, terminal: isTerminal(out)} }

func (p *progress) show(settled, owed int64, elapsed time.Duration) {
	text := fmt.Sprintf("%d of %d deliveries settled, %.1f s", settled, settled+owed, elapsed.Seconds())
	if !p.terminal {
		if elapsed-p.saidAt >= sayEvery {
			p.saidAt = elapsed
			fmt.Fprintln(p.out, text)
		}
		return
	}
	const cells = 30
	full := int(cells * settled / max(settled+owed, 1))
	text = strings.Repeat("█", full) + strings.Repeat("░", cells-full) + "  " + text
	p.width = max(p.width, len(text))
	fmt.Fprintf(p.out, "\r%-*s", p.width, text)
}

func (p *progress) end() {
	if p.terminal && p.width > 0 {
		fmt.Fprintln(p.out)
	}
}
