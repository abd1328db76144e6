package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
	"github.com/waybill-go/waybill/worker"
)

// workerFlags are what `worker` is called with.
type workerFlags struct {
	lanes    []string
	slots    int
	drain    time.Duration
	workerID string
	strict   bool
	admin    adminFlags
}

func workerCommand(a *app) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run receivers on what the task queue brings",
		Long: `Run receivers on what the task queue brings, until it is told to stop.

It consumes the queues of the given lanes, of all declared lanes by default; any
number of processes may consume a queue.

At the first SIGTERM or SIGINT the worker takes nothing more and lets receivers
finish for as long as --drain says; what has not finished by then is cancelled
and given back, without an attempt spent. A second one ends it at once. At SIGHUP
it reads the file of --receivers anew; what runs then ends as it began.`,
		Example: `  worker --store postgres://app:secret@localhost:5432/app --backend redis://localhost:6379/0 --receivers receivers.yaml
  worker --slots 50 --drain 60s
  worker --lane mail --admin 127.0.0.1:9090`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(checkWorkerFlags(f.slots, f.drain), f.admin.check(), a.wake.check()); err != nil {
				return err
			}
			return unlessStopped(cmd, a.work(cmd, f))
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.lanes, "lane", nil, "`lane` whose queue to consume; may be repeated (default all that are declared)")
	flags.IntVar(&f.slots, "slots", worker.DefaultSlots, "receivers that run at the same time")
	flags.DurationVar(&f.drain, "drain", worker.DefaultDrain, "how long a stop waits for receivers that run")
	flags.StringVar(&f.workerID, "worker-id", "", "how rows name this process, instead of host:pid")
	a.wake.add(flags)
	fromEnv(flags, "lane", "WAYBILL_LANE")
	fromEnv(flags, "slots", "WAYBILL_SLOTS")
	fromEnv(flags, "drain", "WAYBILL_DRAIN")
	flags.BoolVar(&f.strict, "strict", false, strictUsage)
	fromEnv(flags, "worker-id", "WAYBILL_WORKER_ID")
	fromEnv(flags, "strict", "WAYBILL_STRICT")
	f.admin.add(flags)
	return cmd
}

// strictUsage is said of --strict by relay and worker.
const strictUsage = "refuse to start on what is warned of otherwise: an AMQP queue that was declared with other arguments"

func checkWorkerFlags(slots int, drain time.Duration) error {
	switch {
	case slots < 1:
		return usagef("--slots %d: must be 1 or more", slots)
	case drain <= 0:
		return usagef("--drain %s: must be longer than nothing", drain)
	}
	return nil
}

func (a *app) work(cmd *cobra.Command, f workerFlags) error {
	log, err := a.logger(cmd)
	if err != nil {
		return err
	}
	hangups, ignore := catchHangups()
	defer ignore()
	if a.backend == "" {
		return usagef("no backend: set --backend or WAYBILL_BACKEND to %s", someBackends)
	}
	backend, err := a.openBackend(cmd, wire.BackendConfig{Drain: f.drain, Strict: f.strict, Logger: log})
	if err != nil {
		return err
	}
	defer backend.Close()
	if backend.InProcess() {
		return usagef("%s: local: is a queue within one process: run 'bridge relay --backend local:', which runs the receivers too", source(cmd, "backend"))
	}
	if err := a.declareFor(true, waybill.SiteTask, waybill.SiteRelay); err != nil {
		return err
	}
	allLanes := len(f.lanes) == 0
	if allLanes {
		f.lanes = a.registry.Lanes()
	}
	if err := checkLanes(a.registry, f.lanes, backend); err != nil {
		return err
	}
	if err := reachBackend(cmd.Context(), backend); err != nil {
		return err
	}
	store, err := a.checkedStore(cmd, a.connections(f.slots)+f.admin.connections())
	if err != nil {
		return err
	}
	defer store.Close()
	var queues []waybill.Consumer
	for _, lane := range f.lanes {
		queue, err := openQueue(cmd.Context(), backend, lane)
		if err != nil {
			return err
		}
		queues = append(queues, queue)
	}
	watch := a.watch(f.admin, store, backend, log)
	config := worker.Config{
		Store: store, Backend: waybill.Join(queues...), Slots: f.slots, Drain: f.drain, WorkerID: f.workerID, Logger: log,
		Observer: watch.observer(),
	}
	w, err := worker.New(config)
	if err != nil {
		return err
	}
	watch.work(w)
	defer sayStopping(cmd.Context(), log, f.drain)()
	reload := &reloading{app: a, hangups: hangups, log: log, follows: func(next *waybill.Registry) error {
		return workerFollows(next, f.lanes, allLanes, config, backend)
	}}
	return reload.during(cmd.Context(), func(ctx context.Context) error { return watch.during(ctx, w.Run) })
}

// sayStopping has a line logged when the process is told to stop: a drain may take
// a while, and whoever waits for it wants to know that it was heard.
func sayStopping(ctx context.Context, log *slog.Logger, drain time.Duration) (forget func() bool) {
	return context.AfterFunc(ctx, func() {
		log.Info("stopping; receivers that run may finish, and a second signal ends them at once", "drain", drain.String())
	})
}

// openBackend opens the backend and does not look for its server yet.
func (a *app) openBackend(cmd *cobra.Command, config wire.BackendConfig) (wire.Backend, error) {
	config.URL, config.StoreURL, config.Name, config.Registry = a.backend, a.store, cmd.Root().Name(), a.registry
	backend, err := wire.OpenBackend(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source(cmd, "backend"), err)
	}
	return backend, nil
}

// reachBackend makes sure that the backend's server answers.
func reachBackend(ctx context.Context, backend wire.Backend) error {
	if backend == nil {
		return nil
	}
	if err := cutShort(ctx, backend.Reach(ctx)); err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	return nil
}

// openQueue opens a lane's queue and makes sure that its server is fit for it.
func openQueue(ctx context.Context, backend wire.Backend, lane string) (wire.Queue, error) {
	queue, err := backend.Queue(lane)
	if err != nil {
		return nil, err
	}
	if checker, ok := queue.(waybill.Checker); ok {
		if err := cutShort(ctx, checker.Check(ctx)); err != nil {
			return nil, fmt.Errorf("backend: %w", err)
		}
	}
	return queue, nil
}

// connections is how many connections to the database a worker may need at the
// same time: each transactional run holds one, and takes, outcomes, what is given
// back and heartbeats share a few.
func (a *app) connections(slots int) int {
	shared := 4
	for _, receiver := range a.registry.Receivers() {
		if receiver.Transactional() {
			return slots + shared
		}
	}
	return shared
}
