package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/store/postgres"
)

// beat is how often the load fires.
const beat = 100 * time.Millisecond

// loadCommand fires, and says how many events it was in the end.
func (a *app) loadCommand() *cobra.Command {
	var rate, ahead int
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:  "load",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := a.load(cmd.Context(), rate, ahead, lasts)
			fmt.Fprintln(cmd.OutOrStdout(), n)
			return err
		},
	}
	cmd.Flags().IntVar(&rate, "rate", 20, "events in a second")
	cmd.Flags().IntVar(&ahead, "ahead", 1000, "fire nothing while this many deliveries are owed")
	cmd.Flags().DurationVar(&lasts, "for", time.Minute, "how long")
	return cmd
}

func (a *app) load(ctx context.Context, rate, ahead int, lasts time.Duration) (fired int64, err error) {
	store, err := postgres.Open(ctx, a.pool, a.registry)
	if err != nil {
		return 0, err
	}
	end := time.NewTimer(lasts)
	defer end.Stop()
	pace := time.NewTicker(beat)
	defer pace.Stop()
	for {
		select {
		case <-pace.C:
		case <-end.C:
			return fired, nil
		case <-ctx.Done():
			return fired, ctx.Err()
		}
		var owed int
		if err := a.pool.QueryRow(ctx, `SELECT count(*) FROM waybill.delivery WHERE status IN ('pending', 'claimed', 'failed')`).Scan(&owed); err != nil {
			return fired, err
		}
		if owed >= ahead { // a machine that is slow is given less to do
			continue
		}
		events := make([]any, max(1, int(int64(rate)*int64(beat)/int64(time.Second))))
		for i := range events {
			events[i] = jobMade{N: fired + int64(i)}
		}
		if err := store.InTx(ctx, func(tx pgx.Tx) error {
			_, err := store.FireAll(ctx, tx, events)
			return err
		}); err != nil {
			return fired, err
		}
		fired += int64(len(events))
	}
}
