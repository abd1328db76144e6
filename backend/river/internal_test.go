package river

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/waybill-go/waybill"
)

func TestQuiet(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	told := newTold()
	logger := quiet(slog.New(slog.NewTextHandler(&out, nil)).With("backend", "river"), told)
	warnings := func(want int) {
		t.Helper()
		if got := strings.Count(out.String(), "level=WARN msg=river backend=river"); got != want || strings.Count(out.String(), "\n") != want {
			t.Errorf("want %d warnings, got\n%s", want, out.String())
		}
	}
	told.muted.Store(true)
	logger.Error("producer: Error fetching initial queue settings")
	warnings(0)
	told.muted.Store(false)
	logger.Info("River client started")
	for range 3 {
		logger.Error("producer: Error fetching jobs", "err", "refused", "queue", "mail")
		logger.With("more", 1).Error("producer: Error fetching jobs", "err", "connection refused")
	}
	logger.Warn("jobcompleter.BatchCompleter: Completer error (will retry after sleep 1s)")
	logger.Warn("jobcompleter.BatchCompleter: Completer error (too many retries)")
	warnings(2)
	if !strings.Contains(out.String(), "error=refused") || strings.Contains(out.String(), "queue=") {
		t.Errorf("an attribute is not named as elsewhere, or named twice:\n%s", out.String())
	}
	told.last["producer: Error fetching jobs"] = time.Now().Add(-2 * quietTime)
	logger.Error("producer: Error fetching jobs")
	warnings(3)
	if logger.Enabled(t.Context(), slog.LevelInfo) {
		t.Error("what is a debug line is enabled where debug lines are not")
	}
}

// The database's clock was set back, or is behind: a job is never due in the
// sender's future.
func TestDueHook(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		claimed  waybill.Stamp
		from, to time.Time
	}{
		"past":   {1_764_500_000_123_999, time.UnixMilli(1_764_500_000_123), time.UnixMilli(1_764_500_000_123)},
		"future": {waybill.StampOf(now.Add(time.Hour)), now.Add(-time.Millisecond), now.Add(time.Minute)},
	} {
		params := &rivertype.JobInsertParams{Args: args{message: waybill.Message{DeliveryID: 1, Claim: waybill.Claim{By: "relay", At: c.claimed}}}}
		if err := dueSinceClaimed.InsertBegin(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		if due := *params.ScheduledAt; due.Before(c.from) || due.After(c.to) {
			t.Errorf("%s: due %s, want %s to %s", name, due, c.from, c.to)
		}
	}
}

func TestArgs(t *testing.T) {
	t.Parallel()
	m := waybill.Message{DeliveryID: 42, Claim: waybill.Claim{By: "relay:1:ab", At: 1_764_500_000_000_001}}
	body, err := json.Marshal(args{message: m})
	want, wantErr := json.Marshal(m)
	if err != nil || wantErr != nil || string(body) != string(want) {
		t.Errorf("%s, %v; want %s", body, err, want)
	}
	var came args
	if err := json.Unmarshal(body, &came); err != nil || came.message != m || came.invalid != nil {
		t.Errorf("came as %+v, %v", came, err)
	}
	for _, body := range []string{"null", "{}", `"text"`, "7"} {
		var came args
		if err := json.Unmarshal([]byte(body), &came); err != nil || came.invalid == nil {
			t.Errorf("%s came as %+v, %v", body, came, err)
		}
	}
}

func TestCommitStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want waybill.EnqueueStatus
	}{
		"refused":        {&pgconn.PgError{Severity: "ERROR", Code: "23505"}, waybill.EnqueueNotSent},
		"rolled back":    {pgx.ErrTxCommitRollback, waybill.EnqueueNotSent},
		"server's doubt": {&pgconn.PgError{Severity: "ERROR", Code: "40003"}, waybill.EnqueueUnknown},
		"server dies":    {&pgconn.PgError{Severity: "FATAL", Code: "57P01"}, waybill.EnqueueUnknown},
		"no answer":      {errors.New("unexpected EOF"), waybill.EnqueueUnknown},
	} {
		if got := commitStatus(c.err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A job that is put back is available at once, also where the database's clock is
// ahead of this process's.
func TestPutBackIsNeverInTheFuture(t *testing.T) {
	t.Parallel()
	for _, place := range []time.Duration{-time.Minute, 10 * time.Minute} {
		job := &queue.Job[args]{JobRow: &rivertype.JobRow{ScheduledAt: time.Now().Add(place)}}
		var snooze *rivertype.JobSnoozeError
		if !errors.As(putBack(job), &snooze) {
			t.Fatalf("a job is put back by %v, want a snooze", putBack(job))
		}
		if want := min(place, 0); snooze.Duration > want || snooze.Duration < want-time.Minute {
			t.Errorf("a job due %s from now is put back for %s, want %s", place, snooze.Duration, want)
		}
	}
}
