package sqlite_test

import (
	"fmt"
	"testing"
)

// BenchmarkChain is fire, claim, take and acknowledge, in batches, on a file.
// One operation is one delivery.
func BenchmarkChain(b *testing.B) {
	for _, size := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmarkChain(b, size) })
	}
}

func benchmarkChain(b *testing.B, size int) {
	ctx := b.Context()
	store, _ := newFile(b)
	b.ResetTimer()
	for done := 0; done < b.N; done += size {
		if err := fireRaw(ctx, store, size); err != nil {
			b.Fatal(err)
		}
		messages, err := claimPlain(ctx, store, size)
		if err != nil {
			b.Fatal(err)
		}
		if err := takeAndAck(ctx, store, messages); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
