package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/worker"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	plain := registry(t, succeed, map[string]waybill.Options{"a": {}})
	unsound := waybill.NewRegistry()
	unsound.Add(waybill.Receiver{Key: "both", Event: waybill.AnyEvent})
	transactional := waybill.NewRegistry()
	transactional.Add(waybill.Receiver{
		Key: "stock", Event: waybill.AnyEvent, TxKind: "pgx.Tx",
		RunTx: func(context.Context, any, *waybill.Delivery) error { return nil },
	})
	sqlite := newBench(t, plain).store
	other := fault.NewStore(sqlite)
	other.SetRegistry(transactional)

	store, queue := newLedger(plain), newHand()
	for _, c := range []struct {
		name   string
		config worker.Config
		want   string
	}{
		{"no store", worker.Config{Backend: queue}, "worker: Config.Store is required"},
		{"a middleware that is none", worker.Config{Store: store, Backend: queue, Middleware: []worker.Middleware{through, nil}},
			"worker: Config.Middleware[1] is nil"},
		{"a middleware that wraps nothing", worker.Config{Store: store, Backend: queue, Middleware: []worker.Middleware{
			func(worker.RunFunc) worker.RunFunc { return nil }, through}}, "worker: Config.Middleware[0] returned no RunFunc"},
		{"negative slots", worker.Config{Store: store, Backend: queue, Slots: -1}, "worker: -1 slots"},
		{"a negative drain", worker.Config{Store: store, Backend: queue, Drain: -time.Second}, "worker: drain -1s"},
		{"wrong declarations", worker.Config{Store: newLedger(unsound), Backend: queue}, `receiver "both"`},
		{"a transactional receiver on a store without transactions", worker.Config{Store: newLedger(transactional), Backend: queue},
			`receiver "stock" is transactional; the store runs no receivers in transactions`},
		{"a transactional receiver of another store", worker.Config{Store: other, Backend: queue},
			`receiver "stock" wants a transaction of type pgx.Tx; the store gives *sql.Tx`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := worker.New(c.config)
			if err == nil || w != nil {
				t.Fatalf("got a worker %v and error %v, want an error alone", w, err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not say %q", err, c.want)
			}
		})
	}
}

// Trap 10: two that hold rows under one name.
func TestOwnerIsAnotherInEveryWorker(t *testing.T) {
	t.Parallel()
	config := worker.Config{Store: newLedger(registry(t, succeed, nil)), Backend: newHand(), WorkerID: "pod-7"}
	first, err := worker.New(config)
	if err != nil {
		t.Fatal(err)
	}
	second, err := worker.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first.ID(), "pod-7:") || !strings.HasPrefix(second.ID(), "pod-7:") || first.ID() == second.ID() {
		t.Errorf("owner ids %q and %q, want two different ones that begin with pod-7:", first.ID(), second.ID())
	}
}
