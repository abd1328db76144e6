package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/ops"
)

// paused is everything with both lanes paused, and one that is declared no more.
func paused() rows {
	store := everything()
	store.pauses = []waybill.Pause{
		{Lane: "default", By: "ann\x1b[31m@db1", Reason: "moving\nhouse", Since: noon},
		{Lane: "gone", By: "ann@db1", Reason: "forgotten", Since: noon},
		{Lane: "mail", Until: noon.Add(time.Minute), Left: 59500 * time.Millisecond, By: "worker:1", Reason: "429", Since: noon.Add(-time.Hour)},
	}
	return store
}

func TestStatusTellsPauses(t *testing.T) {
	t.Parallel()
	report := statusOf(t, paused(), nil)
	got, err := json.Marshal([]*ops.Pause{report.Lanes[0].Pause, report.Lanes[1].Pause})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"until":null,"left_seconds":null,"by":"ann\u001b[31m@db1","reason":"moving\nhouse","since":"2026-05-01T12:00:00.000000Z"},` +
		`{"until":"2026-05-01T12:01:00.000000Z","left_seconds":59.5,"by":"worker:1","reason":"429","since":"2026-05-01T11:00:00.000000Z"}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if want := `
Lane default is paused until somebody resumes it, by "ann\x1b[31m@db1" since 2026-05-01T12:00:00Z: moving house
Lane mail is paused until 2026-05-01T12:01:00Z, for 1m0s more, by worker:1 since 2026-05-01T11:00:00Z: 429
`; !strings.Contains(text.String(), want) {
		t.Errorf("text %s\nwant in it %s", text.String(), want)
	}
}

func TestLanesAsTheyAreDeclared(t *testing.T) {
	t.Parallel()
	got, err := ops.Lanes(context.Background(), paused(), registry(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"audit"}, got[0].Receivers); diff != "" || got[0].Lane != "default" || got[0].Owed != 3 || got[0].Pause.Until != nil {
		t.Errorf("default lane, which owns what is owed to nobody: %+v", got[0])
	}
	if got[1].Lane != "mail" || got[1].Owed != 8 || got[1].Pause.By != "worker:1" {
		t.Errorf("mail: %+v", got[1])
	}
	var text strings.Builder
	if err := got.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	want := `LANE     OWED  RECEIVERS
default     3  audit
mail        8  mail
Lane default is paused until somebody resumes it, by "ann\x1b[31m@db1" since 2026-05-01T12:00:00Z: moving house
Lane mail is paused until 2026-05-01T12:01:00Z, for 1m0s more, by worker:1 since 2026-05-01T11:00:00Z: 429
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	for _, step := range []string{"events", "pauses"} {
		if _, err := ops.Lanes(context.Background(), rows{broken: step}, registry(t)); !errors.Is(err, errDown) {
			t.Errorf("%s fails: Lanes returns %v", step, err)
		}
	}
	nothing, err := ops.Lanes(context.Background(), rows{}, waybill.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if empty, err := json.Marshal(nothing); err != nil || string(empty) != `[{"lane":"default","receivers":[],"handoff_lease_seconds":null,"owed":0,"pause":null}]` {
		t.Errorf("JSON of nothing: %s, %v", empty, err)
	}
}
