package outages

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/backend/backendtest"
)

func TestMain(m *testing.M) {
	asynq.LogRedis(slog.New(slog.DiscardHandler)) // that a Redis is gone is no news here
	backendtest.Parallel()
	goleak.VerifyTestMain(m)
}
