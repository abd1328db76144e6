package waybilltest_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/waybilltest"
)

func TestRunIsAsInAWorker(t *testing.T) {
	t.Parallel()
	var seen *waybill.Delivery
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "mail", func(ctx context.Context, order orderPlaced) error {
			seen = waybill.DeliveryFrom(ctx)
			if order != (orderPlaced{ID: 7, Email: "ada@example.com"}) {
				t.Errorf("received %+v", order)
			}
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Minute {
				t.Errorf("the run ends at %v (%t), want within its timeout", deadline, ok)
			}
			return errBusy
		}, waybill.Options{Timeout: time.Minute, MaxAttempts: 9})
	})
	event := waybill.Envelope{Event: orderPlaced{ID: 7, Email: "ada@example.com"}, Headers: map[string]string{"tenant": "t1"}, CorrelationID: "c"}
	err := waybilltest.Run(t, reg, "mail", event, waybilltest.Running{Target: "x", Attempt: 3})
	if !errors.Is(err, errBusy) {
		t.Errorf("outcome %v, want the receiver's", err)
	}
	got := []any{seen.Target, seen.Attempt, seen.MaxAttempts, seen.Receiver, seen.Event.Name, seen.Event.Version, seen.Event.Headers["tenant"], seen.Event.CorrelationID}
	if diff := cmp.Diff([]any{"x", 3, 9, "mail", "order.placed", 1, "t1", "c"}, got); diff != "" {
		t.Errorf("delivery (-want +got):\n%s", diff)
	}
}

func TestRunReturnsEveryOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		outcome error
		check   func(error) bool
	}{
		{"success", nil, func(err error) bool { return err == nil }},
		{"permanent", waybill.Permanent(errBusy), waybill.IsPermanent},
		{"retry", waybill.RetryAfter(time.Minute), func(err error) bool { return err.Error() == "retry after 1m0s" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			reg := register(t, func(reg *waybill.Registry) {
				waybill.On(reg, "mail", func(context.Context, orderPlaced) error { return c.outcome }, waybill.Options{})
			})
			if err := waybilltest.Run(t, reg, "mail", &orderPlaced{}); !c.check(err) {
				t.Errorf("outcome %v", err)
			}
		})
	}
}

func TestRunInATransactionOfTheTest(t *testing.T) {
	t.Parallel()
	reg := register(t, func(reg *waybill.Registry) {
		sqlite.OnTx(reg, "stock", func(ctx context.Context, tx *sql.Tx, order orderPlaced) error {
			_, err := tx.ExecContext(ctx, "CREATE TABLE reserved (id INTEGER)")
			return err
		}, waybill.Options{})
	})
	store := waybilltest.SQLite(t, reg)
	err := store.InTx(t.Context(), func(tx *sql.Tx) error {
		if err := waybilltest.Run(t, reg, "stock", orderPlaced{ID: 1}, waybilltest.Running{Tx: tx}); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), "INSERT INTO reserved VALUES (1)")
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// failing is a test that is asked whether it failed, and with what words.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = strings.TrimSpace(format)
	for _, arg := range args {
		f.said += " " + strings.Trim(strings.Join(strings.Fields(strings.ReplaceAll(toString(arg), "\n", " ")), " "), " ")
	}
	panic(f)
}
func (f *failing) Fatal(args ...any) { f.Fatalf("", args...) }

func toString(arg any) string {
	switch arg := arg.(type) {
	case error:
		return arg.Error()
	case string:
		return arg
	default:
		return ""
	}
}

// fails returns what f said when it failed the test it was given.
func fails(t *testing.T, f func(t testing.TB)) (said string) {
	t.Helper()
	inner := &failing{TB: t}
	defer func() {
		if recovered := recover(); recovered != nil && recovered != any(inner) {
			panic(recovered)
		}
		said = inner.said
	}()
	f(inner)
	return ""
}

func TestWhatIsWrongFailsTheTest(t *testing.T) {
	t.Parallel()
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "mail", func(context.Context, orderPlaced) error { return nil }, waybill.Options{})
		sqlite.OnTx(reg, "stock", func(context.Context, *sql.Tx, orderPlaced) error { return nil }, waybill.Options{})
	})
	store := waybilltest.SQLite(t, reg)
	for _, c := range []struct {
		name string
		call func(t testing.TB)
		want string
	}{
		{"no such receiver", func(t testing.TB) { _ = waybilltest.Run(t, reg, "male", orderPlaced{}) }, "there is no such receiver"},
		{"another event's", func(t testing.TB) { _ = waybilltest.Run(t, reg, "mail", orderShipped{}) }, "not declared for the event"},
		{"undeclared event", func(t testing.TB) { _ = waybilltest.Run(t, reg, "mail", 7) }, "is not a declared event"},
		{"no transaction", func(t testing.TB) { _ = waybilltest.Run(t, reg, "stock", orderPlaced{}) }, "give it one in Running.Tx"},
		{"undeclared type", func(t testing.TB) { waybilltest.Fired[int](t, store) }, "is not a declared event"},
		{"no transaction of the store's", func(t testing.TB) { waybilltest.DrainTx(t, store, 7) }, "works within a *sql.Tx"},
		{"backwards", func(t testing.TB) { waybilltest.Advance(t, store, -1) }, "the clock goes forward"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if said := fails(t, c.call); !strings.Contains(said, c.want) {
				t.Errorf("it said %q, want %q", said, c.want)
			}
		})
	}
}
