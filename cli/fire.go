package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
)

func fireCommand(a *app) *cobra.Command {
	var (
		payload, file, occurred string
		event                   wire.Event
	)
	cmd := &cobra.Command{
		Use:   "fire NAME --payload JSON | fire --file FILE",
		Short: "Record events, and make them owed to their receivers",
		Long: `Record events, and make them owed to their receivers.

With --file each line is one event, {"name": …, "payload": …}, and - is standard
input. A line may also have version, headers, dedupe_key, occurred_at and
correlation_id. All lines are checked before anything is written, and everything is
written in one transaction: a file is fired whole or not at all. Who is owed an
event is decided now, by the receivers that are declared; an event that nobody is
declared for is recorded, with a warning.`,
		Example: `  bridge fire order.placed --payload '{"id":1,"total":"9.90"}'
  bridge fire --file events.jsonl
  zcat events.jsonl.gz | bridge fire --file -`,
		Args: cobra.MaximumNArgs(1),
		RunE: running(func(cmd *cobra.Command, args []string) error {
			if err := a.wake.check(); err != nil {
				return err
			}
			given := cmd.Flags().Changed("payload")
			switch {
			case file != "" && (given || len(args) > 0 || len(event.Headers) > 0 || event.DedupeKey+occurred+event.CorrelationID != "" || event.Version != 0):
				return usagef("--file names the events in the file: leave out NAME and --payload, and what goes beside them")
			case file != "":
				return a.fireFile(cmd, file)
			case len(args) == 0 || !given:
				return usagef("want NAME and --payload, or --file")
			default:
				event.Name, event.Payload = args[0], json.RawMessage(payload)
				if occurred != "" {
					at, err := time.Parse(time.RFC3339Nano, occurred)
					if err != nil {
						return usagef("--occurred-at %q is no time: write it as 2026-12-01T09:30:00Z", occurred)
					}
					event.OccurredAt = at
				}
				return a.fireOne(cmd, event)
			}
		}),
	}
	cmd.Flags().StringVar(&payload, "payload", "", "the event's payload, as `JSON`")
	cmd.Flags().IntVar(&event.Version, "event-version", 0, "the payload's `version` (default 1)")
	cmd.Flags().StringToStringVar(&event.Headers, "header", nil, "a header that is kept with the event, as `NAME=VALUE`; may be repeated")
	cmd.Flags().StringVar(&event.DedupeKey, "dedupe-key", "", "fire only if no event has this `key`; one that has is an error, and nothing is written")
	cmd.Flags().StringVar(&occurred, "occurred-at", "", "when it happened, as RFC 3339 `time` (default now)")
	cmd.Flags().StringVar(&event.CorrelationID, "correlation-id", "", "`id` of the chain that the event belongs to")
	cmd.Flags().StringVar(&file, "file", "", "`file` of events, one JSON object a line; - is standard input")
	a.wake.add(cmd.Flags())
	return cmd
}

func (a *app) fireOne(cmd *cobra.Command, event wire.Event) error {
	check := func() error { return checkEvent(cmd.Context(), event) }
	return a.fire(cmd, check, func(fire wire.Fire) error {
		_, err := fire(cmd.Context(), []wire.Event{event})
		return err
	})
}

func (a *app) fireFile(cmd *cobra.Command, path string) error {
	lines, err := openLines(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	defer lines.close()
	check := func() error {
		return lines.each(cmd.Context(), func([]wire.Event) error { return cmd.Context().Err() })
	}
	return a.fire(cmd, check, func(fire wire.Fire) error {
		return lines.each(cmd.Context(), func(events []wire.Event) error {
			_, err := fire(cmd.Context(), events)
			return err
		})
	})
}

// fire checks all events, fires them in chunks, in one transaction, and reports
// what was written.
func (a *app) fire(cmd *cobra.Command, check func() error, chunks func(fire wire.Fire) error) error {
	if err := a.declareFor(true); err != nil {
		return err
	}
	if err := check(); err != nil {
		return err
	}
	store, err := a.checkedStore(cmd, 0)
	if err != nil {
		return err
	}
	defer store.Close()
	events, deliveries, unowed := 0, 0, map[string]int{}
	err = store.FireAll(cmd.Context(), func(fire wire.Fire) error {
		return chunks(func(ctx context.Context, chunk []wire.Event) (int, error) {
			n, err := fire(ctx, chunk)
			events += len(chunk)
			deliveries += n
			for _, event := range chunk {
				if !a.isOwed(event.Name) {
					unowed[event.Name]++
				}
			}
			return n, err
		})
	})
	if err != nil {
		return fmt.Errorf("fire: nothing was written: %w", err)
	}
	a.warnUnowed(cmd, unowed)
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "fired %s, %s\n", plural(events, "event", "events"), plural(deliveries, "delivery", "deliveries"))
	return err
}

func (a *app) isOwed(event string) bool {
	return slices.ContainsFunc(a.registry.Receivers(), func(r *waybill.Receiver) bool { return r.Accepts(event) })
}

// warnUnowed names, on one line, the events that nobody will ever be given.
func (a *app) warnUnowed(cmd *cobra.Command, unowed map[string]int) {
	if len(unowed) == 0 {
		return
	}
	const most = 5
	var named []string
	for _, name := range slices.Sorted(maps.Keys(unowed)) {
		if len(named) == most {
			named = append(named, fmt.Sprintf("and %d other names", len(unowed)-most))
			break
		}
		named = append(named, fmt.Sprintf("%q (%d)", name, unowed[name]))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: recorded, and owed to nobody, because no receiver is declared for it: %s\n",
		cmd.Root().Name(), strings.Join(named, ", "))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// checkEvent asks a registry that declares nothing, so that no receiver's targets
// are resolved before the event is fired.
func checkEvent(ctx context.Context, event wire.Event) error {
	_, err := waybill.NewRegistry().Plan(ctx, nil, event.Fired())
	return err
}

// openFile opens a file for reading twice. What can be read only once is copied to
// a temporary file first.
func openFile(stdin io.Reader, path string) (file *os.File, remove func(), err error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: correct the path after --file", err)
		}
		info, err := file.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a folder: name a file after --file", path)
		}
		if err != nil {
			return nil, nil, errors.Join(err, file.Close())
		}
		if info.Mode().IsRegular() {
			return file, func() { file.Close() }, nil
		}
		defer file.Close()
		in = file
	}
	spool, err := os.CreateTemp("", "waybill-fire-")
	if err != nil {
		return nil, nil, err
	}
	remove = func() {
		spool.Close()
		os.Remove(spool.Name())
	}
	if _, err := io.Copy(spool, in); err != nil {
		remove()
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return spool, remove, nil
}
