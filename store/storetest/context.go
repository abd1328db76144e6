package storetest

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
)

var contextCases = []testCase{
	{"that has ended changes nothing", func(b *scene) {
		b.start("a")
		b.parcels(3)
		message := b.claim(1, "a")[0].Message
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		b.unchanged(func() {
			calls := map[string]func() error{
				"Claim": func() error {
					_, err := b.Store.Claim(ctx, waybill.ClaimRequest{By: relayID, Receivers: []string{"a"}, Limit: 1, Lease: stamped})
					return err
				},
				"ClaimLapsed": func() error {
					_, err := b.Store.ClaimLapsed(ctx, waybill.LapsedRequest{By: relayID, Limit: 1, Lease: stamped})
					return err
				},
				"ClaimTx": func() error {
					return b.Store.ClaimTx(ctx, func(ctx context.Context, _ any, claims waybill.Claimer) error {
						_, err := claims.Claim(context.WithoutCancel(ctx), offered)
						return err
					})
				},
				"OwedReceivers": func() error { _, err := b.Store.OwedReceivers(ctx, nil); return err },
				"GiveBack": func() error {
					_, err := b.Store.GiveBack(ctx, []waybill.GiveBack{{Message: message}})
					return err
				},
				"Take": func() error {
					_, err := b.Store.Take(ctx, waybill.TakeRequest{By: workerID, Messages: []waybill.Message{message}, Leases: b.reg.Leases()})
					return err
				},
				"Look": func() error { _, err := b.Store.Look(ctx, []int64{message.DeliveryID}); return err },
				"Extend": func() error {
					_, err := b.Store.Extend(ctx, []waybill.Extension{{Message: message, Lease: hour}})
					return err
				},
				"Ack": func() error {
					_, err := b.Store.Ack(ctx, []waybill.Ack{{Message: message, Outcome: success}})
					return err
				},
				"Now":        func() error { _, err := b.Store.Now(ctx); return err },
				"Tallies":    func() error { _, err := b.Store.Tallies(ctx); return err },
				"OwedEvents": func() error { _, err := b.Store.OwedEvents(ctx); return err },
				"Check":      func() error { return b.Store.Check(ctx) },
			}
			for name, call := range calls {
				wantErr(b, name, call())
			}
		})
		b.must(b.Store.Check(b.ctx)) // and the store goes on
	}},
}

func (b *scene) await(what string, signal <-chan struct{}) {
	b.Helper()
	select {
	case <-signal:
	case <-time.After(10 * time.Second):
		b.Fatalf("timed out: %s", what)
	}
}
