package wire

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
)

// River in the store's database takes part in its transactions; in another one it
// says that it cannot. Neither store nor queue may hide that behind a type of ours.
func TestRiverAndTheStoresTransaction(t *testing.T) {
	t.Parallel()
	postgres, file := services.Postgres(t), "sqlite:"+filepath.Join(t.TempDir(), "w.db")
	for _, c := range []struct {
		name, store, backend string
		want                 error
	}{
		{"in the store's database", postgres, "river:?schema=one", nil},
		{"in the store's database, by its own URL", postgres, "river+" + postgres + "&schema=two&pool_max_conns=9", nil},
		{"in another database", postgres, "river+" + services.Postgres(t), waybill.ErrOtherDatabase},
		{"in a file beside a database", postgres, "river+sqlite:" + filepath.Join(t.TempDir(), "r.db"), waybill.ErrOtherDatabase},
		{"in the store's file", file, "river:", nil},
		{"in another file", file, "river+sqlite:" + filepath.Join(t.TempDir(), "r.db"), waybill.ErrOtherDatabase},
		{"in a database beside a file", file, "river+" + postgres + "&schema=three", waybill.ErrOtherDatabase},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			store, err := OpenStore(StoreConfig{URL: c.store, Registry: waybill.NewRegistry()})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			backend, err := OpenBackend(BackendConfig{URL: c.backend, StoreURL: c.store})
			if err != nil {
				t.Fatal(err)
			}
			defer backend.Close()
			for _, migrator := range []func() (waybill.Migrator, error){store.Migrator, backend.Migrator} {
				m, err := migrator()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := m.Up(ctx); err != nil {
					t.Fatal(err)
				}
			}
			queue, err := backend.Queue("mail")
			if err != nil {
				t.Fatal(err)
			}
			message := waybill.Message{DeliveryID: 1, Claim: waybill.Claim{By: "relay", At: 1}}
			err = store.(waybill.TxClaimer).ClaimTx(ctx, func(ctx context.Context, tx any, _ waybill.Claimer) error {
				return queue.(waybill.TxBackend).EnqueueTx(ctx, tx, []waybill.Message{message})
			})
			if !errors.Is(err, c.want) {
				t.Fatalf("enqueue in the store's transaction: %v, want %v", err, c.want)
			}
			backlog, err := queue.(waybill.BacklogReader).Backlog(ctx)
			if err != nil {
				t.Fatal(err)
			}
			want := int64(1)
			if c.want != nil {
				want = 0
			}
			if ready, ok := backlog.Ready.Value(); !ok || ready != want {
				t.Errorf("%d messages are ready, want %d", ready, want)
			}
		})
	}
}
