package relay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
)

// Traps 16 and 17: a lane that nobody declared, or a batch of nothing, claims nothing and looks well.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	sound := newLedger(declare(t, map[string]waybill.Options{"receipt": {Lane: "mail"}, "stock": {}}))
	unsound := waybill.NewRegistry()
	unsound.Add(waybill.Receiver{Key: "both", Event: "parcel.sent"})
	for _, c := range []struct {
		name   string
		config relay.Config
		want   []string
	}{
		{"no store", relay.Config{}, []string{"relay: Config.Store is required"}},
		{"a lane that nobody declared", relay.Config{Store: sound, Lane: "mial"}, []string{`unknown lane "mial"`, "declared: default, mail"}},
		{"a negative batch", relay.Config{Store: sound, BatchSize: -1}, []string{"batch size -1"}},
		{"a negative poll", relay.Config{Store: sound, Poll: -time.Second}, []string{"poll -1s"}},
		{"a negative lease", relay.Config{Store: sound, StandardLease: -time.Second}, []string{"standard lease -1s"}},
		{"negative passes", relay.Config{Store: sound, Passes: -1}, []string{"-1 passes"}},
		{"wrong declarations", relay.Config{Store: newLedger(unsound)}, []string{`receiver "both"`, "exactly one of Run and RunTx"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := relay.New(c.config)
			if err == nil || r != nil {
				t.Fatalf("got a relay %v and error %v, want an error alone", r, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestNewAcceptsWhatIsNegativeOnPurpose(t *testing.T) {
	t.Parallel()
	newRelay(t, relay.Config{Store: newLedger(declare(t, nil)), OrphanAfter: -1, ParkAfter: -1})
}

// Trap 10: two that hold rows under one name.
func TestOwnerIsAnotherInEveryRelay(t *testing.T) {
	t.Parallel()
	store := newLedger(declare(t, nil))
	first := newRelay(t, relay.Config{Store: store, WorkerID: "pod-7"}).ID()
	second := newRelay(t, relay.Config{Store: store, WorkerID: "pod-7"}).ID()
	if !strings.HasPrefix(first, "pod-7:") || !strings.HasPrefix(second, "pod-7:") || first == second {
		t.Errorf("owner ids %q and %q, want two different ones that begin with pod-7:", first, second)
	}
}

func TestPassesEndRun(t *testing.T) {
	t.Parallel()
	store := newLedger(declare(t, map[string]waybill.Options{"receipt": {}}))
	store.owe("receipt", 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := newRelay(t, relay.Config{Store: store, Backend: &queue{}, Passes: 3, Poll: time.Millisecond})
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	wantReturn(t, done) // although ctx lives on
	if due, _ := store.calls(); len(due) != 3 {
		t.Errorf("%d claims in 3 passes, want 3", len(due))
	}
}
