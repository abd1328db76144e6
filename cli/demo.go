package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli/demo"
)

// nextSteps is what the demo says at its end.
const nextSteps = `Next, with your own database and Redis (export WAYBILL_STORE, WAYBILL_BACKEND and WAYBILL_RECEIVERS, or use flags):
  bridge migrate && bridge fire order.placed --payload '{"id":1}'
  bridge relay & worker & bridge status
`

func demoCommand(a *app) *cobra.Command {
	var backend, file string
	asJSON := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch deliveries go through a queue, with nothing installed",
		Long: `Watch deliveries go through a queue, with nothing installed.

A few hundred events are fired into a SQLite file in a temporary folder, and go
through Asynq on a Redis inside this process to two workers. One receiver fails
twice, one always fails, one stalls past its lease, one is transactional, one
fans out; and some messages arrive after their lease. The ledger at the end says
what came of it all. The exit code is 0 only if it balances.`,
		Example: `  bridge demo
  bridge demo --file events.jsonl
  bridge demo --backend local --json`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error {
			if backend != "asynq" && backend != "local" {
				return usagef("--backend %s: the demo runs on asynq or local", backend)
			}
			config := demo.Config{Backend: backend}
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
	// Not the global flag: a queue that the environment names is left alone.
	cmd.Flags().StringVar(&backend, "backend", "asynq", "`queue`: asynq, on a Redis in this process, or local")
	cmd.Flags().StringVar(&file, "file", "", "`file` of events to fire instead, one JSON object a line; - is standard input")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the ledger as JSON")
	return cmd
}

func readEvents(cmd *cobra.Command, path string) (events []waybill.RawEvent, err error) {
	lines, err := openLines(cmd.InOrStdin(), path)
	if err != nil {
		return nil, err
	}
	defer lines.close()
	err = lines.each(cmd.Context(), func(chunk []waybill.RawEvent) error {
		events = append(events, chunk...)
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
	ledger, err := demo.Run(cmd.Context(), config)
	shown.end()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(ledger)
	} else {
		ledger.Print(cmd.OutOrStdout())
		_, err = io.WriteString(cmd.OutOrStdout(), nextSteps)
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
