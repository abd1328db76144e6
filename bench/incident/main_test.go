package main

import (
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/backend/asynq"
)

// The tests' own binary is also what they run as relays and workers.
func TestMain(m *testing.M) {
	if role, ok := roleOf(os.Args); ok {
		os.Exit(role.main())
	}
	asynq.LogRedis(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}
