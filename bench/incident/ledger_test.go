package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/sizing"
)

// history is samples, one a quarter of a second, of so many settled rows.
func history(settled ...int) []sample {
	var samples []sample
	for i, n := range settled {
		samples = append(samples, sample{at: time.Unix(0, 0).Add(time.Duration(i) * sampleGap), Settled: n, Depth: 9})
	}
	return samples
}

// The drain is what workers do that have nothing but work.
func TestDrainIsMeasuredWhileThereIsWork(t *testing.T) {
	t.Parallel()
	s := &scene{samples: history(0, 100, 200, 210, 220, 320)}
	s.samples[3].Depth = 0 // twice as slow: it ran dry
	s.samples[4].Depth = 0
	s.samples[5].Stale = 7
	if got := drain(s.busy()); got != 400 {
		t.Errorf("%v rows a second, want 400", got)
	}
	// What comes after the last stale copy decides nothing.
	s = &scene{samples: history(0, 100, 200, 250, 350, 400, 450)}
	for i, stale := range []int{0, 0, 0, 7, 7, 9, 9} {
		s.samples[i].Stale = stale
	}
	if got := drain(s.deciding()); got != 400 {
		t.Errorf("%v rows a second until the last stale copy, want 400", got)
	}
	s = &scene{samples: history(0, 100, 100, 100, 200, 300)}
	s.fault, s.healed = s.samples[1].at, s.samples[3].at
	if got := drain(s.busy()); got != 400 {
		t.Errorf("%v rows a second with workers that were away, want 400", got)
	}
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	s := &scene{samples: history(0, 100, 100, 100, 120, 220, 320, 420, 520, 620)}
	s.fault, s.healed = s.samples[1].at, s.samples[2].at
	if got := s.recovery(400); got != 2*sampleGap {
		t.Errorf("well again after %s, want %s", got, 2*sampleGap)
	}
}

func TestPromises(t *testing.T) {
	t.Parallel()
	on := func(fault string, stale, deepest int, finish time.Duration) ledger {
		i := scaled()
		i.Fault = fault
		return ledger{incident: i, Window: true, Stale: stale, DeepestQueue: deepest,
			Ideal: sizing.Seconds(70 * time.Second), Finish: sizing.Seconds(finish)}
	}
	off := func(stale int) ledger {
		return ledger{incident: scaled(), Stale: stale, Predicted: &sizing.Prediction{StaleCopies: 10_000, Converges: true}}
	}
	for _, c := range []struct {
		name string
		l    ledger
		want string
	}{
		{"kept", on(faultNone, 0, 999, 73*time.Second), ""},
		{"a stale copy", on(faultNone, 1, 200, 73*time.Second), "1 stale copies"},
		{"late", on(faultNone, 0, 200, 74*time.Second), "done after 1m14s"},
		{"deep", on(faultNone, 0, 1000, 73*time.Second), "1000 messages"},
		{"some after a fault", on(faultWorkers, 10, 200, 73*time.Second), ""},
		{"more after a fault", on(faultWorkers, 11, 200, 73*time.Second), "11 stale copies"},
		{"a lease later where messages were lost", on(faultFlush, 0, 200, 118*time.Second), ""},
		{"later than that", on(faultFlush, 0, 200, 119*time.Second), "done after 1m59s"},
		{"as predicted", off(9_000), ""},
		{"fewer", off(8_999), "8999 stale copies where 10000"},
		{"more", off(11_001), "11001 stale copies"},
	} {
		misses := c.l.misses()
		if c.want == "" && len(misses) > 0 || c.want != "" && (len(misses) != 1 || !strings.HasPrefix(misses[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.name, misses, c.want)
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Setenv("WAYBILL_TEST_POSTGRES", "x")
	t.Setenv("WAYBILL_TEST_REDIS", "x")
	t.Setenv("WAYBILL_TEST_AMQP", "x")
	for _, args := range [][]string{
		{"-backend", "kafka"}, {"-fault", "fire"}, {"-fault", "flush", "-backend", "river"}, {"-window", "ajar"}, {"-plot", "a.gif"},
		{"-n", "1"}, {"-slots", "1"}, {"-rate", "0"}, {"-lease", "1ms"}, {"-all", "-window", "auto"}, {"-window", "on"}, {"more"},
	} {
		if c, err := parse(args); err == nil {
			t.Errorf("%q: %+v", args, c)
		}
	}
	c, err := parse(nil)
	if err != nil || c.Rows != 28_000 || c.service().Round(time.Millisecond) != 44*time.Millisecond || c.standard() != 15*time.Second || c.window != "both" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = parse([]string{"-backend", "river"}); err != nil || c.Slots != 28 || c.service().Round(time.Millisecond) != 44*time.Millisecond {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = parse([]string{"-window", "auto", "-fault", "relay"}); err != nil || c.window != "auto" || c.relays() != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestPicturesOfVariantsAreBesideEachOther(t *testing.T) {
	t.Parallel()
	var got []string
	for _, variant := range scaled().variants() {
		got = append(got, variant.pictureOf("out/incident.svg", true))
	}
	want := "out/incident.svg out/incident-asynq-workers.svg out/incident-asynq-flush.svg out/incident-asynq-relay.svg out/incident-amqp.svg out/incident-river.svg"
	if strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
}

func TestPicture(t *testing.T) {
	t.Parallel()
	off := ledger{incident: scaled(), Stale: 9, DeepestQueue: 30, Predicted: &sizing.Prediction{StaleCopies: 12}, Samples: []sample{
		{Seconds: -0.1}, {Seconds: 30, Settled: 20, Depth: 30, Stale: 9}, {Seconds: 80, Settled: 28_000, Depth: -1, Stale: 9},
	}}
	on := ledger{incident: scaled(), Window: true, Samples: []sample{{}, {Seconds: 70, Settled: 28_000}}}
	chart := chartOf([]ledger{off, on})
	depth, stale := chart.Panels[0], chart.Panels[1]
	if got := depth.Lines[0].Points; got[0].X != 0 || got[1].Y != 30 || !math.IsNaN(got[2].Y) {
		t.Errorf("depths %v: want one from 0 on, with a gap where the queue could not tell", got)
	}
	if len(stale.Lines) != 3 || stale.Lines[2].Points[1].X != chart.XMax || stale.Max < 12 {
		t.Errorf("%+v: want the prediction in it, across all of it", stale)
	}
	if want := "With the window off: 9 stale copies, done after 0.0s. With the window on: no stale copies, done after 0.0s."; chart.Subtitle != want {
		t.Errorf("%q, want %q", chart.Subtitle, want)
	}
	for name, head := range map[string]string{"a.svg": "<?xml", "a.PNG": "\x89PNG"} {
		path := filepath.Join(t.TempDir(), name)
		if err := draw(path, []ledger{off, on}); err != nil {
			t.Fatal(err)
		}
		if picture, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(picture), head) {
			t.Errorf("%s: %.10q, %v", name, picture, err)
		}
	}
}
