package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
	"github.com/waybill-go/waybill/ops"
)

func statusCommand(a *app) *cobra.Command {
	asJSON := false
	var admins []string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is owed, what is in flight, and what became of the rest",
		Long: `Show what is owed, what is in flight, and what became of the rest.

By receiver: owed are the deliveries that are pending, claimed, or failed and
waiting out their backoff. Receivers and events that are owed and that nobody is
declared for are named at the end. oldest_owed_seconds is 0 when nothing is owed.

By lane, with --backend: what the lane's queue says. READY messages wait for a
worker, the oldest as long as OLDEST says; RUNNING ones are with a worker, and
CONSUMERS is how many can be at the same time. What a queue cannot say is ?, or
null with --json, and never 0.

By lane, in any case: what the rows say, which is right wherever the two differ.
WAITING rows were handed off and no worker took them yet, RUNNING ones were taken,
and rows that were GIVEN BACK will be claimed again. A lane that is paused is named
after that ("pause" with --json).

By lane, with --admin: what only running processes know, from the metrics of the
relays and workers that listen there. Relays know WINDOW, how many rows they let
wait in the queue ("none" without one), how many of those are WAITING, how many a
second workers DRAIN, whether a lane is STALLED, and how often they PROBED it; what
several relays of a lane know is added up. Workers know how long rows waited for
them, which share of the lease that used and how much is left (HEADROOM), and the
stale copies that rows refused, with the worker time that they cost and what would
remove them. Name every relay and worker: it is those that are asked, since each of
them started.

A queue or a process that cannot be asked within five seconds is a line of the
report, and no failure of the command.`,
		Example: `  bridge status --store postgres://app:secret@localhost:5432/app --receivers receivers.yaml
  bridge status --backend redis://localhost:6379/0
  bridge status --admin relay-1:9090 --admin worker-1:9090 --admin worker-2:9090
  bridge status --json | jq .owed
  bridge status --json | jq '.lanes[] | select(.queue.consumers == 0)'`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error { return a.status(cmd, admins, asJSON) }),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringSliceVar(&admins, "admin", nil, "`host:port` where a relay or worker listens that is asked as well; may be repeated")
	fromEnv(cmd.Flags(), "admin", "WAYBILL_ADMIN")
	return cmd
}

func (a *app) status(cmd *cobra.Command, admins []string, asJSON bool) error {
	processes, err := statusProcesses(admins)
	if err != nil {
		return err
	}
	if err := a.declareFor(false); err != nil {
		return err
	}
	queues, closeQueues, err := a.statusQueues(cmd)
	if err != nil {
		return err
	}
	defer closeQueues()
	store, err := a.checkedStore(cmd, 0)
	if err != nil {
		return err
	}
	defer store.Close()
	answer := askLive(cmd.Context(), processes)
	report, err := ops.Status(cmd.Context(), store, a.registry, queues)
	live := answer()
	if err != nil {
		return err
	}
	report.SetLive(live)
	if !asJSON {
		return report.WriteText(cmd.OutOrStdout())
	}
	return writeJSON(cmd.OutOrStdout(), report)
}

// statusQueues returns the lanes' queues, none without a backend or with one that
// another process cannot see into.
func (a *app) statusQueues(cmd *cobra.Command) (queues map[string]waybill.BacklogReader, done func(), err error) {
	if a.backend == "" {
		return nil, func() {}, nil
	}
	log, err := a.logger(cmd)
	if err != nil {
		return nil, nil, err
	}
	backend, err := a.openBackend(cmd, wire.BackendConfig{Logger: log})
	if err != nil {
		return nil, nil, err
	}
	if backend.InProcess() {
		return nil, backend.Close, nil
	}
	queues = make(map[string]waybill.BacklogReader)
	for _, lane := range a.registry.Lanes() {
		queues[lane] = laneQueue{backend, lane}
	}
	return queues, backend.Close, nil
}

// laneQueue opens a lane's queue when it is asked, so that what goes wrong is an
// answer.
type laneQueue struct {
	backend wire.Backend
	lane    string
}

func (q laneQueue) Backlog(ctx context.Context) (backlog waybill.Backlog, err error) {
	if err := q.backend.Reach(ctx); err != nil {
		return backlog, err
	}
	queue, err := q.backend.Queue(q.lane)
	if err != nil {
		return backlog, err
	}
	if reader, ok := queue.(waybill.BacklogReader); ok {
		return reader.Backlog(ctx)
	}
	return backlog, nil
}
