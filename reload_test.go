package waybill_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

type renamed struct{ N int }

func noted(context.Context, *waybill.Delivery) error { return nil }

// declared is a registry of one lane and the receivers of the given keys.
func declared(t *testing.T, lane string, keys ...string) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	reg.AddLane(lane, waybill.LaneOptions{HandOffLease: time.Minute})
	for _, key := range keys {
		waybill.OnAny(reg, key, noted, waybill.Options{Lane: lane})
	}
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

func TestReplacePutsEveryDeclarationInPlace(t *testing.T) {
	t.Parallel()
	reg := declared(t, "old", "b", "stays")
	was, _ := reg.Receiver("b")
	next := declared(t, "new", "stays", "c")
	waybill.Declare[renamed](next, "renamed", waybill.EventOptions{Version: 7})
	if err := reg.Replace(next); err != nil {
		t.Fatalf("Replace: %v", err)
	}
	if diff := cmp.Diff([]string{"stays", "c"}, waybill.Keys(reg.Receivers())); diff != "" {
		t.Errorf("receivers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"default", "new"}, reg.Lanes()); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	if _, ok := reg.Receiver("b"); ok {
		t.Error("a receiver that is gone is still found by its key")
	}
	if c, ok := reg.Receiver("c"); !ok || reg.HandOffLease(c) != time.Minute {
		t.Errorf("c = %+v", c)
	}
	plan, err := reg.Plan(t.Context(), nil, renamed{N: 1})
	if err != nil || plan.Event.Name != "renamed" || plan.Event.Version != 7 || len(plan.Deliveries) != 2 {
		t.Errorf("plan = %+v, %v; want the event and the two receivers that are declared now", plan, err)
	}
	if was.Lane != "old" || was.Run == nil { // a run under way holds it
		t.Errorf("the receiver that was is now %+v", was)
	}
	waybill.OnAny(next, "later", noted, waybill.Options{})
	if _, ok := reg.Receiver("later"); ok {
		t.Error("what is declared after Replace is in both registries")
	}
}

func TestReplaceRefusesMistakes(t *testing.T) {
	t.Parallel()
	reg := declared(t, "mail", "a")
	next := declared(t, "mail", "b")
	waybill.OnAny(next, "b", noted, waybill.Options{})
	if err := reg.Replace(next); err == nil || !strings.Contains(err.Error(), `receiver "b": that key is declared already`) {
		t.Errorf("Replace: %v, want the mistake", err)
	}
	if err := reg.Replace(nil); err == nil {
		t.Error("Replace accepts nothing")
	}
	if keys := waybill.Keys(reg.Receivers()); !slices.Equal(keys, []string{"a"}) || reg.Err() != nil {
		t.Errorf("after a refusal %v are declared, %v", keys, reg.Err())
	}
}

func TestAnErrorOfOldDeclarationsGoesWithThem(t *testing.T) {
	t.Parallel()
	reg := declared(t, "mail", "a")
	waybill.OnAny(reg, "a", noted, waybill.Options{})
	if err := reg.Replace(declared(t, "mail", "a")); err != nil || reg.Err() != nil {
		t.Errorf("Replace: %v, then Err: %v", err, reg.Err())
	}
}

func TestACloneIsItsOwn(t *testing.T) {
	t.Parallel()
	reg := declared(t, "mail", "a")
	copied := reg.Clone()
	waybill.OnAny(copied, "b", noted, waybill.Options{Lane: "crm"})
	waybill.OnAny(reg, "c", noted, waybill.Options{})
	if got := waybill.Keys(copied.Receivers()); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the clone has %v", got)
	}
	if got := waybill.Keys(reg.Receivers()); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("the original has %v", got)
	}
}

// A field that Clone and Replace do not know would keep what was declared before.
func TestReplaceKnowsEveryField(t *testing.T) {
	t.Parallel()
	var fields []string
	for field := range reflect.TypeFor[waybill.Registry]().Fields() {
		fields = append(fields, field.Name)
	}
	if diff := cmp.Diff([]string{"mu", "types", "named", "receivers", "order", "lanes", "errs"}, fields); diff != "" {
		t.Errorf("have Clone and Replace of reload.go carry the new field as well (-want +got):\n%s", diff)
	}
}

// No reader sees some of one registry and some of another: each answer is whole. And two
// that replace each other do not wait for each other.
func TestReplaceIsAtomic(t *testing.T) {
	t.Parallel()
	one, two := declared(t, "one", "a", "b"), declared(t, "two", "c", "d", "e")
	reg, other := one.Clone(), two.Clone()
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	var all sync.WaitGroup
	for _, next := range []*waybill.Registry{one, two, other} {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := reg.Replace(next); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			if err := other.Replace(reg); err != nil {
				t.Error(err)
			}
		}
	})
	for ctx.Err() == nil {
		switch keys := strings.Join(waybill.Keys(reg.Receivers()), ""); keys {
		case "ab", "cde":
		default:
			t.Fatalf("receivers %s are declared together", keys)
		}
		if lanes := strings.Join(reg.Lanes(), " "); lanes != "default one" && lanes != "default two" {
			t.Fatalf("lanes %s are declared together", lanes)
		}
	}
	all.Wait()
}
