package cli_test

import (
	"context"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

// Who is told to stop while it still starts has nothing to finish, and stops well. What
// has something to get done has not done it.
func TestAStopDuringTheStartIsAStop(t *testing.T) {
	t.Parallel()
	s := newSite(t, oneReceiver)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if got := execute(ended, cli.Bridge(waybill.NewRegistry()), "", s.queueArgs("relay")...); got.code != 0 || got.err != "" {
		t.Errorf("relay = %+v, want a quiet end", got)
	}
	if got := execute(ended, cli.Worker(waybill.NewRegistry()), "", s.queueArgs()...); got.code != 0 || got.err != "" {
		t.Errorf("worker = %+v, want a quiet end", got)
	}
	checkFailure(t, execute(ended, cli.Bridge(waybill.NewRegistry()), "", s.queueArgs("relay", "--once")...), 1, "interrupted")
	checkFailure(t, execute(ended, cli.Bridge(waybill.NewRegistry()), "", s.args("status")...), 1, "interrupted")
}
