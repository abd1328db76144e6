package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/ops"
)

// queue answers as a test says, or hangs.
type queue struct {
	backlog waybill.Backlog
	err     error
	hangs   bool
}

func (q queue) Backlog(ctx context.Context) (waybill.Backlog, error) {
	if q.hangs {
		<-ctx.Done()
		return waybill.Backlog{}, ctx.Err()
	}
	return q.backlog, q.err
}

func known(ready, running, consumers int64, oldest time.Duration) waybill.Backlog {
	return waybill.Backlog{
		Ready: waybill.Known(ready), Running: waybill.Known(running), Consumers: waybill.Known(consumers), Oldest: waybill.Known(oldest),
	}
}

func statusOf(t *testing.T, store rows, queues map[string]waybill.BacklogReader) ops.Report {
	t.Helper()
	report, err := ops.Status(context.Background(), store, registry(t), queues)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestJSONOfLanes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		queue waybill.BacklogReader
		want  string
	}{
		"not given":      {nil, `null`},
		"all known":      {queue{backlog: known(4, 3, 8, 1234567*time.Microsecond)}, `{"ready":4,"running":3,"consumers":8,"oldest_seconds":1.235}`},
		"empty":          {queue{backlog: known(0, 0, 0, 0)}, `{"ready":0,"running":0,"consumers":0,"oldest_seconds":0}`},
		"partly unknown": {queue{backlog: waybill.Backlog{Ready: waybill.Known[int64](4)}}, `{"ready":4,"running":null,"consumers":null,"oldest_seconds":null}`},
		"not answering":  {queue{err: errors.New("it is down"), backlog: known(0, 0, 0, 0)}, `{"ready":null,"running":null,"consumers":null,"oldest_seconds":null,"error":"it is down"}`},
	} {
		report := statusOf(t, everything(), map[string]waybill.BacklogReader{"mail": c.queue})
		got, err := json.Marshal(report.Lanes)
		if err != nil {
			t.Fatal(err)
		}
		want := `[{"lane":"default","queue":null,"waiting":4,"running":2,"given_back":3,"oldest_waiting_seconds":90,"pause":null},` +
			`{"lane":"mail","queue":` + c.want + `,"waiting":1,"running":1,"given_back":0,"oldest_waiting_seconds":1.5,"pause":null}]`
		if string(got) != want {
			t.Errorf("%s: JSON = %s\nwant   %s", name, got, want)
		}
	}
}

// Queues that hang cost five seconds together, their own figures and nothing else.
func TestStatusOfQueuesThatHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		report := statusOf(t, everything(), map[string]waybill.BacklogReader{"mail": queue{hangs: true}, "default": queue{hangs: true}})
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
		for _, lane := range report.Lanes {
			if want := (ops.Queue{Error: "context deadline exceeded"}); lane.Queue == nil || *lane.Queue != want {
				t.Errorf("queue of %s: %+v", lane.Lane, lane.Queue)
			}
			if lane.Waiting == 0 || lane.Running == 0 {
				t.Errorf("rows of %s: %+v", lane.Lane, lane)
			}
		}
		if report.Owed != 11 {
			t.Errorf("owed %d, want 11", report.Owed)
		}
	})
}

// meeting is a queue that answers once all are asked.
type meeting struct{ all *sync.WaitGroup }

func (m meeting) Backlog(context.Context) (waybill.Backlog, error) {
	m.all.Done()
	m.all.Wait()
	return known(0, 0, 0, 0), nil
}

func TestQueuesAreAskedAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // where waiting for what never comes is a failure at once
		all := new(sync.WaitGroup)
		all.Add(2)
		statusOf(t, rows{}, map[string]waybill.BacklogReader{"mail": meeting{all}, "default": meeting{all}})
	})
}

func TestTextOfLanes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		queues map[string]waybill.BacklogReader
		want   string
	}{
		"known": {
			map[string]waybill.BacklogReader{"default": queue{backlog: known(1204, 50, 50, 75*time.Second)}, "mail": queue{backlog: known(0, 1, 8, 0)}},
			`LANE     READY  RUNNING  CONSUMERS  OLDEST  | rows:  WAITING  RUNNING  GIVEN BACK  OLDEST
default   1204       50         50   1m15s  |              4        2           3   1m30s
mail         0        1          8       -  |              1        1           0      2s
`,
		},
		"partly unknown": {
			map[string]waybill.BacklogReader{"default": queue{backlog: known(2, 1, 8, 0)}, "mail": queue{backlog: waybill.Backlog{Ready: waybill.Known[int64](4)}}},
			`LANE     READY  RUNNING  CONSUMERS  OLDEST  | rows:  WAITING  RUNNING  GIVEN BACK  OLDEST
default      2        1          8      0s  |              4        2           3   1m30s
mail         4        ?          ?       ?  |              1        1           0      2s
? is what the queue cannot say. The rows can: they are right wherever the two differ.
`,
		},
		"one not given": {
			map[string]waybill.BacklogReader{"mail": queue{backlog: known(0, 0, 0, 0)}},
			`LANE     READY  RUNNING  CONSUMERS  OLDEST  | rows:  WAITING  RUNNING  GIVEN BACK  OLDEST
default      -        -          -       -  |              4        2           3   1m30s
mail         0        0          0       -  |              1        1           0      2s
`,
		},
		"down": {
			map[string]waybill.BacklogReader{"default": queue{err: errors.New("Redis at mq: \"refused\"\n\x1b[31mnow")}, "mail": queue{err: errors.New("Redis at mq: \"refused\"\n\x1b[31mnow")}},
			`LANE     READY  RUNNING  CONSUMERS  OLDEST  | rows:  WAITING  RUNNING  GIVEN BACK  OLDEST
default      ?        ?          ?       ?  |              4        2           3   1m30s
mail         ?        ?          ?       ?  |              1        1           0      2s
? is what the queue cannot say. The rows can: they are right wherever the two differ.

Could not ask the queue of default, mail: Redis at mq: "refused"  [31mnow
`,
		},
		"down for two reasons": {
			map[string]waybill.BacklogReader{"default": queue{err: errors.New("one")}, "mail": queue{err: errors.New("two")}},
			`LANE     READY  RUNNING  CONSUMERS  OLDEST  | rows:  WAITING  RUNNING  GIVEN BACK  OLDEST
default      ?        ?          ?       ?  |              4        2           3   1m30s
mail         ?        ?          ?       ?  |              1        1           0      2s
? is what the queue cannot say. The rows can: they are right wherever the two differ.

Could not ask the queue of default: one
Could not ask the queue of mail: two
`,
		},
	} {
		var text strings.Builder
		if err := statusOf(t, everything(), c.queues).WriteText(&text); err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(text.String(), "\n\n")
		got, _, _ = strings.Cut(got, "\nOwed to receivers")
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: text (-want +got):\n%s", name, diff)
		}
		for line := range strings.Lines(got) {
			if len(line) > 101 {
				t.Errorf("%s: a line of %d columns: %s", name, len(line)-1, line)
			}
		}
	}
}
