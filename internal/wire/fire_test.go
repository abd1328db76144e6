package wire

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
)

// TestFireAllCountsTargets: a fan-out owes as many deliveries as it has targets.
func TestFireAllCountsTargets(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"postgres": services.Postgres(t), "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "w.db")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			store := openMigrated(t, url)
			fired := 0
			err := store.FireAll(ctx, func(fire Fire) error {
				for _, names := range [][]string{{"fans.out", "goes.nowhere"}, {"fans.out"}} {
					var events []Event
					for _, name := range names {
						events = append(events, Event{RawEvent: waybill.RawEvent{Name: name, Payload: json.RawMessage(`{}`)}})
					}
					n, err := fire(ctx, events)
					if err != nil {
						return err
					}
					fired += n
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if rows := rowsOf(t, store); fired != 7 || rows != 7 {
				t.Errorf("counted %d deliveries, and there are %d; want 7", fired, rows)
			}
		})
	}
}

func TestFireAllRollsBack(t *testing.T) {
	t.Parallel()
	broken := errors.New("the second chunk is bad")
	for name, url := range map[string]string{"postgres": services.Postgres(t), "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "w.db")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			store := openMigrated(t, url)
			err := store.FireAll(ctx, func(fire Fire) error {
				if _, err := fire(ctx, []Event{{RawEvent: waybill.RawEvent{Name: "fans.out", Payload: json.RawMessage(`{}`)}}}); err != nil {
					return err
				}
				return broken
			})
			if !errors.Is(err, broken) {
				t.Errorf("FireAll returns %v, want %v", err, broken)
			}
			if rows := rowsOf(t, store); rows != 0 {
				t.Errorf("%d deliveries were written", rows)
			}
		})
	}
}

// openMigrated opens a store with two receivers, of which one has two targets.
func openMigrated(t *testing.T, url string) Store {
	t.Helper()
	reg := waybill.NewRegistry()
	run := func(context.Context, *waybill.Delivery) error { return nil }
	reg.Add(waybill.Receiver{Key: "all", Event: waybill.AnyEvent, Run: run})
	reg.Add(waybill.Receiver{Key: "fan", Event: "fans.out", Run: run, Options: waybill.Options{
		Targets: waybill.TargetsOf(func(context.Context, map[string]any) ([]string, error) { return []string{"a", "b", "a"}, nil }),
	}})
	store, err := OpenStore(StoreConfig{URL: url, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	migrator, err := store.Migrator()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(context.Background()); err != nil {
		t.Fatal(err)
	}
	return store
}

func rowsOf(t *testing.T, store Store) (rows int64) {
	t.Helper()
	tallies, err := store.Tallies(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, tally := range tallies {
		rows += tally.Rows
	}
	return rows
}
