package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// withSignals returns a context that ends with the first SIGTERM or SIGINT. The
// second one calls exit with 128 and its number: whoever asks twice does not want
// to wait. What the process held then waits for its leases.
func withSignals(parent context.Context, exit func(code int)) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for count := 1; ; count++ {
			select {
			case <-done:
				return
			case s := <-caught:
				cancel()
				if number, ok := s.(syscall.Signal); ok && count > 1 {
					exit(128 + int(number))
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		close(done)
		cancel()
	}
}
