package main

import (
	"context"
	"fmt"
	"io"
)

// backendSlots is how many receivers run at once when backends are compared.
const backendSlots = 64

// kind is one way to get messages from a relay to a worker.
type kind struct {
	name string
	db   database
	open func(ctx context.Context) (queue, error)
}

// compareBackends measures every kind of queue in rounds and writes a table.
func (b *bench) compareBackends(ctx context.Context, out io.Writer) error {
	kinds, err := b.kinds(ctx)
	if err != nil {
		return err
	}
	rates := make([][]float64, len(kinds))
	for range b.runs {
		for i, kind := range kinds {
			queue, err := kind.open(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
			n, err := b.endToEnd(ctx, kind.db, queue, backendSlots)
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
			rates[i] = append(rates[i], n)
		}
	}
	fmt.Fprintf(out, "%-32s%14s%12s%12s\n", fmt.Sprintf("%d slots", backendSlots), "deliveries/s", "p50", "p99")
	for i, kind := range kinds {
		queue, err := kind.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		sorted, err := b.measureLatency(ctx, kind.db, queue)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		fmt.Fprintf(out, "%-32s%14.0f%12s%12s\n", kind.name, median(rates[i]), at(sorted, 0.5), at(sorted, 0.99))
	}
	return nil
}
