package waybill_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waybill-go/waybill"
)

func ignore(context.Context, orderPlaced) error { return nil }

func ignoreAny(context.Context, *waybill.Delivery) error { return nil }

// toTargets declares one fan-out receiver of orderPlaced.
func toTargets(t *testing.T, targets *waybill.Targets) *waybill.Registry {
	t.Helper()
	reg := orders(t)
	waybill.On(reg, "fan", ignore, waybill.Options{Targets: targets})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

// Trap 66: a wildcard that knows the events of its own day only.
func TestPlanOwesEveryReceiverOfTheEvent(t *testing.T) {
	t.Parallel()
	reg := orders(t, "zebra", "mail")
	waybill.Declare[orderShipped](reg, "order.shipped", waybill.EventOptions{})
	waybill.On(reg, "track", func(context.Context, orderShipped) error { return nil }, waybill.Options{})
	waybill.OnAny(reg, "audit", ignoreAny, waybill.Options{MaxAttempts: 17})
	reg.Add(waybill.Receiver{Key: "legacy", Event: "order.archived", Run: ignoreAny})

	row := func(key string) waybill.PlannedDelivery {
		return waybill.PlannedDelivery{Receiver: key, MaxAttempts: waybill.DefaultMaxAttempts}
	}
	audit := waybill.PlannedDelivery{Receiver: "audit", MaxAttempts: 17}
	for _, c := range []struct {
		name  string
		fired any
		want  []waybill.PlannedDelivery
	}{
		{"in order of declaration", orderPlaced{}, []waybill.PlannedDelivery{row("zebra"), row("mail"), audit}},
		{"of that event only", orderShipped{}, []waybill.PlannedDelivery{row("track"), audit}},
		{"by name", waybill.RawEvent{Name: "order.archived", Payload: json.RawMessage(`1`)}, []waybill.PlannedDelivery{audit, row("legacy")}},
		{"of an event that nobody declares", waybill.RawEvent{Name: "order", Payload: json.RawMessage(`1`)}, []waybill.PlannedDelivery{audit}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, plan(t, reg, c.fired).Deliveries); diff != "" {
				t.Errorf("deliveries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanWithoutReceiversIsTheEventAlone(t *testing.T) {
	t.Parallel()
	got := plan(t, orders(t), orderPlaced{ID: 1})
	if got.Event.Name != "order.placed" || len(got.Deliveries) != 0 {
		t.Errorf("plan %+v, want the event and no delivery", got)
	}
}

func TestPlanFansOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		targets []string
		want    []string
	}{
		{"each target once, in order", []string{"b", "a", "b", "ünï", "a"}, []string{"b", "a", "ünï"}},
		{"none", nil, nil},
		{"white space is a target", []string{" ", "\t"}, []string{" ", "\t"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reg := toTargets(t, waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return c.targets, nil }))
			var got []string
			for _, d := range plan(t, reg, orderPlaced{}).Deliveries {
				if d.Receiver != "fan" || d.MaxAttempts != waybill.DefaultMaxAttempts {
					t.Errorf("delivery %+v, want one of receiver fan", d)
				}
				got = append(got, d.Target)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanLeavesTheReturnedTargetsAlone(t *testing.T) {
	t.Parallel()
	shared := []string{"a", "a", "b"} // as a receiver may keep it in a variable
	reg := toTargets(t, waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return shared, nil }))
	plan(t, reg, orderPlaced{})
	if diff := cmp.Diff([]string{"a", "a", "b"}, shared); diff != "" {
		t.Errorf("the receiver's own slice changed:\n%s", diff)
	}
}

func TestPlanRefusesATargetThatNoStoreKeeps(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"", "a\x00b", "a\xffb"} {
		reg := toTargets(t, waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return []string{"ok", target}, nil }))
		got, err := reg.Plan(context.Background(), nil, orderPlaced{})
		wantErrSays(t, err, "fire order.placed", `targets of receiver "fan"`, "is empty, not UTF-8 or has a NUL")
		if diff := cmp.Diff(waybill.Plan{}, got); diff != "" {
			t.Errorf("target %q: there is a plan:\n%s", target, diff)
		}
	}
}

// A change whose consequences cannot be worked out must not commit.
func TestPlanFailsWithTheErrorOfTheTargets(t *testing.T) {
	t.Parallel()
	broken := errors.New("no address book")
	reg := toTargets(t, waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return []string{"a"}, broken }))
	got, err := reg.Plan(context.Background(), nil, orderPlaced{})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want it to wrap %v", err, broken)
	}
	wantErrSays(t, err, `fire order.placed: targets of receiver "fan": no address book`)
	if diff := cmp.Diff(waybill.Plan{}, got); diff != "" {
		t.Errorf("there is a plan:\n%s", diff)
	}
}

func TestTargetsSeeTheEventAndTheTransaction(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(context.Background(), key{}, "caller")
	for _, c := range []struct {
		name  string
		fired any
	}{
		{"a value", orderPlaced{ID: 7, Notes: "n"}},
		{"a pointer", &orderPlaced{ID: 7, Notes: "n"}},
		{"raw, decoded", waybill.RawEvent{Name: "order.placed", Payload: json.RawMessage(`{"id":7,"notes":"n"}`)}},
		{"a pointer to raw, decoded", &waybill.RawEvent{Name: "order.placed", Payload: json.RawMessage(`{"id":7,"notes":"n"}`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			reg := toTargets(t, waybill.TargetsOfTx(func(ctx context.Context, tx any, event orderPlaced) ([]string, error) {
				calls++
				if ctx.Value(key{}) != "caller" || tx != "the transaction" {
					t.Errorf("called with context of %v and tx %v", ctx.Value(key{}), tx)
				}
				if diff := cmp.Diff(orderPlaced{ID: 7, Notes: "n"}, event); diff != "" {
					t.Errorf("event (-want +got):\n%s", diff)
				}
				return nil, nil
			}))
			if _, err := reg.Plan(ctx, "the transaction", c.fired); err != nil {
				t.Fatal(err)
			}
			if calls != 1 {
				t.Errorf("targets were asked %d times, want once", calls)
			}
		})
	}
}

func TestTargetsOfARawEventThatDoesNotDecode(t *testing.T) {
	t.Parallel()
	reg := toTargets(t, waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return nil, nil }))
	_, err := reg.Plan(context.Background(), nil, waybill.RawEvent{Name: "order.placed", Payload: json.RawMessage(`"seven"`)})
	wantErrSays(t, err, `receiver "fan"`, "decode payload of order.placed as waybill_test.orderPlaced")
}

// A fan-out over every event sees each of them in its recorded form.
// Trap 66: a wildcard that cannot leave an event out.
func TestTargetsOfAnyEvent(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	var seen []waybill.RawEvent
	waybill.OnAny(reg, "hooks", ignoreAny, waybill.Options{
		Targets: waybill.TargetsOf(func(_ context.Context, event waybill.RawEvent) ([]string, error) {
			seen = append(seen, event)
			return []string{"x"}, nil
		}),
	})
	raw := waybill.RawEvent{Name: "raw", Payload: json.RawMessage(`1`)}
	for _, fired := range []any{orderPlaced{ID: 7}, &orderPlaced{ID: 8}, raw, &raw} {
		if got := plan(t, reg, fired).Deliveries; len(got) != 1 || got[0].Target != "x" {
			t.Errorf("deliveries %+v, want one for target x", got)
		}
	}
	want := []waybill.RawEvent{
		{Name: "order.placed", Version: 1, Payload: json.RawMessage(`{"id":7}`)},
		{Name: "order.placed", Version: 1, Payload: json.RawMessage(`{"id":8}`)},
		{Name: "raw", Version: 1, Payload: json.RawMessage(`1`)},
		{Name: "raw", Version: 1, Payload: json.RawMessage(`1`)},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTargetsAreNotAskedForAnotherEvent(t *testing.T) {
	t.Parallel()
	reg := toTargets(t, waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) {
		t.Error("targets were asked about an event that the receiver does not accept")
		return nil, nil
	}))
	plan(t, reg, waybill.RawEvent{Name: "other", Payload: json.RawMessage(`1`)})
}

// Trap 67: targets that are told apart by their beginnings.
func TestTargetDigestIsOfTheWholeTarget(t *testing.T) {
	t.Parallel()
	long := make([]byte, 10_000)
	one, other := string(long)+"1", string(long)+"2"
	if waybill.TargetDigest(one) == waybill.TargetDigest(other) {
		t.Error("two targets with a long prefix in common have one digest")
	}
	if got, want := waybill.TargetDigest("a"), sha256.Sum256([]byte("a")); got != want {
		t.Errorf("digest %x, want the SHA-256 %x: rows written earlier have that", got, want)
	}
}
