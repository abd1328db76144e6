package cli_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

// A team's own program has every command over its own receivers, and needs no
// declarations file.
func TestATeamsOwnProgram(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	program := func() *cobra.Command {
		reg := waybill.NewRegistry()
		waybill.OnAny(reg, "audit", func(context.Context, *waybill.Delivery) error {
			ran.Add(1)
			return nil
		}, waybill.Options{})
		return cli.Program(reg)
	}
	store := "sqlite:" + filepath.Join(t.TempDir(), "w.db")
	for _, args := range [][]string{
		{"migrate", "--store", store},
		{"fire", "order.placed", "--payload", "{}", "--store", store},
		{"relay", "--once", "--backend", "local:", "--store", store},
	} {
		if got := execute(t.Context(), program(), "", args...); got.code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, got.code, got.err)
		}
	}
	if got := ran.Load(); got != 1 {
		t.Errorf("the receiver ran %d times, want once", got)
	}
	got := execute(t.Context(), program(), "", "worker", "--store", store, "--backend", "redis://ann:secret@"+closedPort(t))
	checkFailure(t, got, 1, "backend: Redis at ", "connection refused")
}

func TestAProgramWhoseDeclarationsAreWrong(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "audit", nil, waybill.Options{})
	got := execute(t.Context(), cli.Program(reg), "", "status", "--store", "sqlite:"+filepath.Join(t.TempDir(), "w.db"))
	checkFailure(t, got, 1, `receiver "audit": exactly one of Run and RunTx must be set`)
}
