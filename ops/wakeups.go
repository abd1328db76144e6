package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// listenTimeout bounds the question whether wake-ups arrive.
const listenTimeout = 5 * time.Second

// WakeUps says whether relays hear of what was fired, or find it by their poll.
type WakeUps struct {
	// Heard is whether they arrive over connections such as the one that was asked:
	// unknown if that could not be found out.
	Heard waybill.Reading[bool] `json:"heard"`
	// Error is why they are not heard, or why nobody knows.
	Error string `json:"error,omitempty"`
}

// listenCheck asks the store aside whether wake-ups arrive, while the rest is asked.
func listenCheck(ctx context.Context, store waybill.StatusReader) (answer func() *WakeUps) {
	checker, ok := store.(waybill.ListenChecker)
	if !ok {
		return func() *WakeUps { return nil }
	}
	heard := make(chan error, 1)
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	go func() { heard <- checker.CheckListen(ctx) }()
	return func() *WakeUps {
		defer cancel()
		switch err := <-heard; {
		case err == nil:
			return &WakeUps{Heard: waybill.Known(true)}
		case errors.Is(err, waybill.ErrDeaf):
			return &WakeUps{Heard: waybill.Known(false), Error: err.Error()}
		default:
			return &WakeUps{Error: err.Error()}
		}
	}
}

// writeWakeUps writes a line if something is wrong with them.
func writeWakeUps(b *strings.Builder, w *WakeUps) {
	if w == nil || w.Error == "" {
		return
	}
	what := "Relays with this store URL are not woken, and poll"
	if _, known := w.Heard.Value(); !known {
		what = "Whether relays with this store URL are woken is not known"
	}
	fmt.Fprintf(b, "\n%s: %s\n", what, w.Error)
}
