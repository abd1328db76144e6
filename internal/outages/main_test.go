package outages

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/backend/asynq"
)

func TestMain(m *testing.M) {
	asynq.LogRedis(slog.New(slog.DiscardHandler)) // that a Redis is gone is no news here
	goleak.VerifyTestMain(m)
}
