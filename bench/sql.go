package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-go/waybill"
)

const (
	takers = 2
	ackers = 2
)

// sqlAlone takes n deliveries from fire to ack with no queue in between: the
// share of the database. It returns deliveries a second.
func (b *bench) sqlAlone(ctx context.Context) (float64, error) {
	db := onPostgres{b}
	if err := db.clear(ctx); err != nil {
		return 0, err
	}
	store, err := db.open(func(context.Context, *waybill.Delivery) error { return nil })
	if err != nil {
		return 0, err
	}
	claimed := make(chan []waybill.Message, 2*takers)
	taken := make(chan []waybill.Ack, 2*ackers)
	started := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return fire(ctx, store, b.deliveries) })
	group.Go(func() error {
		defer close(claimed)
		return claimAll(ctx, store, b.deliveries, claimed)
	})
	group.Go(func() error {
		defer close(taken)
		taking, ctx := errgroup.WithContext(ctx)
		for range takers {
			taking.Go(func() error { return takeAll(ctx, store, claimed, taken) })
		}
		return taking.Wait()
	})
	for range ackers {
		group.Go(func() error { return ackAll(ctx, store, taken) })
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	elapsed := time.Since(started)
	return rate(b.deliveries, elapsed), b.settled(ctx, store)
}

func claimAll(ctx context.Context, store waybill.Store, n int, claimed chan<- []waybill.Message) error {
	by := waybill.NewOwner("bench-relay")
	for n > 0 {
		rows, err := store.Claim(ctx, waybill.ClaimRequest{
			By: by, Receivers: []string{"bench.receiver"}, Limit: batch, Lease: waybill.DefaultLease,
		})
		if err != nil {
			return err
		}
		if len(rows) == 0 { // the firers are behind
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond):
			}
			continue
		}
		n -= len(rows)
		messages := make([]waybill.Message, len(rows))
		for i, row := range rows {
			messages[i] = row.Message
		}
		select {
		case claimed <- messages:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func takeAll(ctx context.Context, store waybill.Store, claimed <-chan []waybill.Message, taken chan<- []waybill.Ack) error {
	by := waybill.NewOwner("bench-worker")
	for messages := range claimed {
		answers, err := waybill.Take(ctx, store, by, messages)
		if err != nil {
			return err
		}
		acks := make([]waybill.Ack, len(answers))
		for i, answer := range answers {
			if answer.Refused != "" {
				return fmt.Errorf("take delivery %d: refused: %s", answer.Message.DeliveryID, answer.Refused)
			}
			acks[i] = waybill.Ack{
				Message: waybill.Message{DeliveryID: answer.Delivery.ID, Claim: answer.Delivery.Claim},
				Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true},
			}
		}
		select {
		case taken <- acks:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func ackAll(ctx context.Context, store waybill.Store, taken <-chan []waybill.Ack) error {
	for acks := range taken {
		landed, err := waybill.Record(ctx, store, acks)
		if err != nil {
			return err
		}
		for i, ok := range landed {
			if !ok {
				return fmt.Errorf("acknowledge delivery %d: its claim was lost", acks[i].DeliveryID)
			}
		}
	}
	return nil
}

// settled makes sure that what was measured is what was meant: every delivery
// succeeded, and there are as many as were fired.
func (b *bench) settled(ctx context.Context, store store) error {
	// The group's context has ended with the group.
	tallies, err := store.Tallies(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if len(tallies) == 1 && tallies[0].Status == waybill.Succeeded && tallies[0].Rows == int64(b.deliveries) {
		return nil
	}
	return errors.New("not every delivery succeeded: " + fmt.Sprintf("%+v", tallies))
}

func rate(n int, elapsed time.Duration) float64 { return float64(n) / elapsed.Seconds() }
