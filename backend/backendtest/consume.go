package backendtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// Consuming runs Consume in the background, for an adapter's own tests; end cancels it
// and returns its error. It ends with the test at the latest.
func Consuming(t testing.TB, consumer waybill.Consumer, concurrency int, handle waybill.Handler) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- consumer.Consume(ctx, concurrency, handle) }()
	end = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			t.Errorf("consume did not end in %s", patience)
			return nil
		}
	})
	t.Cleanup(func() { _ = end() })
	return end
}
