package outages

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/backend/asynq"
)

func TestMain(m *testing.M) {
	asynq.LogRedis(slog.New(slog.DiscardHandler)) // that a Redis is gone is no news here
	// All at the same time: they wait for leases, and not for a processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
