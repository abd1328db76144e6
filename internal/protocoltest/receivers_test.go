package protocoltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// letter is owed to one receiver, parcel to that one, to a transactional one and
// to as many targets of a fan-out as it names.
type (
	letter struct{}
	parcel struct {
		Targets int `json:"targets"`
	}
)

// Receivers, with leases that a claim for all of them does not stamp exactly, so
// that relays have to extend, and few attempts, so that rows die.
const (
	audit = "audit" // plain, of every event, may defer
	stock = "stock" // transactional
	hooks = "hooks" // plain, a fan-out
)

func declare(t testing.TB, onTx func(reg *waybill.Registry, key string, opts waybill.Options)) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	waybill.Declare[letter](reg, "letter.sent", waybill.EventOptions{})
	waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{})
	backoff := waybill.Backoff{Base: 10 * time.Second, Cap: 40 * time.Second}
	waybill.OnAny(reg, audit, func(ctx context.Context, _ *waybill.Delivery) error { return behave(ctx, nil) },
		waybill.Options{Lane: mail, Lease: time.Minute, MaxAttempts: 3, Backoff: backoff, GiveUpAfter: 10 * time.Minute})
	onTx(reg, stock, waybill.Options{Lease: 90 * time.Second, MaxAttempts: 2, Backoff: backoff})
	waybill.On(reg, hooks, func(ctx context.Context, _ parcel) error { return behave(ctx, nil) }, waybill.Options{
		Lane: mail, Lease: time.Minute, MaxAttempts: 2, Backoff: backoff,
		Targets: waybill.TargetsOf(func(_ context.Context, p parcel) ([]string, error) {
			targets := make([]string, p.Targets)
			for i := range targets {
				targets[i] = fmt.Sprint("target ", i)
			}
			return targets, nil
		}),
	})
	must(t, reg.Err())
	return reg
}

type behaviourKey struct{}

// withBehaviour says what the receiver that is called under the context does.
func withBehaviour(ctx context.Context, does func(ctx context.Context, tx any) error) context.Context {
	return context.WithValue(ctx, behaviourKey{}, does)
}

func behave(ctx context.Context, tx any) error {
	return ctx.Value(behaviourKey{}).(func(context.Context, any) error)(ctx, tx)
}
