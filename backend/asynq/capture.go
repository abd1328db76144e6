package asynq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

// Asynq enqueues one task per round trip; a relay wants one round trip per batch.
// So an Asynq client is given a Redis client that writes down what it was asked
// to run, and what was written down is sent in one pipeline. Keys, encoding and
// scripts stay Asynq's own.

// call is one run of Asynq's enqueue script.
type call struct {
	source string
	keys   []string
	args   []any
}

// capture is a Redis client that runs no scripts but records them. Everything else
// goes to the client it embeds.
type capture struct {
	redis.UniversalClient
	calls  []call
	queues []any // members of the set of queues that Asynq's tools read
}

// EvalSha answers that the script is unknown, so that Eval is called with its source.
func (c *capture) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	return redis.NewCmdResult(nil, redis.ErrNoScript)
}

// Eval records the call and answers as the script does when it succeeds.
func (c *capture) Eval(_ context.Context, source string, keys []string, args ...any) *redis.Cmd {
	c.calls = append(c.calls, call{source: source, keys: keys, args: args})
	return redis.NewCmdResult(int64(1), nil)
}

// SAdd records the queue's name.
func (c *capture) SAdd(ctx context.Context, key string, members ...any) *redis.IntCmd {
	if key != queuesKey {
		return c.UniversalClient.SAdd(ctx, key, members...)
	}
	c.queues = append(c.queues, members...)
	return redis.NewIntResult(1, nil)
}

// queuesKey is the set that Asynq's tools list queues from.
const queuesKey = "asynq:queues"

// encoder turns messages into calls. One serves one Enqueue: Asynq's client names
// its queue to Redis once in its life, and once is not enough for a Redis that can
// be flushed.
type encoder struct {
	backend *Backend
	capture *capture
	client  *asynq.Client
}

func (b *Backend) newEncoder() *encoder {
	c := &capture{UniversalClient: b.config.Redis}
	return &encoder{backend: b, capture: c, client: asynq.NewClientFromRedisClient(c)}
}

// encode returns the call that enqueues a message. It does not touch the network.
func (e *encoder) encode(ctx context.Context, message waybill.Message) (call, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return call{}, fmt.Errorf("encode message: %w", err)
	}
	before := len(e.capture.calls)
	task := asynq.NewTask(waybill.MessageKind, body)
	_, err = e.client.EnqueueContext(ctx, task, e.backend.taskOptions(message)...)
	if err != nil {
		return call{}, fmt.Errorf("encode message: %w", err)
	}
	if len(e.capture.calls) != before+1 {
		return call{}, errCapture
	}
	return e.capture.calls[before], nil
}

// taskOptions makes a task out of a message that Asynq runs at once, and once.
func (b *Backend) taskOptions(message waybill.Message) []asynq.Option {
	return []asynq.Option{
		asynq.Queue(b.queue),
		// The id holds the claim: sending a message again adds no copy, and a
		// task that Asynq still remembers never stands in a later claim's way.
		asynq.TaskID(taskID(message)),
		asynq.MaxRetry(0),
		asynq.Timeout(24 * time.Hour), // the row's lease ends a run; Asynq's default of 30m never may
	}
}

func taskID(m waybill.Message) string {
	return strconv.FormatInt(m.DeliveryID, 10) + ":" + m.Claim.By + ":" + strconv.FormatInt(int64(m.Claim.At), 10)
}

// errCapture: a release of Asynq that enqueues in another way than the one this
// package was written for.
var errCapture = errors.New("this release of asynq enqueues in an unknown way; use v0.26.0")

// captureScript learns Asynq's enqueue script, and makes sure that a release of
// Asynq which works differently is refused at start, and not sent into the void.
func (b *Backend) captureScript() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // whatever is not captured fails instead of reaching Redis
	probe := waybill.Message{DeliveryID: 1, Claim: waybill.Claim{By: "probe", At: 1}}
	captured, err := b.newEncoder().encode(ctx, probe)
	if err != nil {
		return err
	}
	if len(captured.keys) != 2 || !strings.HasSuffix(captured.keys[1], ":pending") || len(captured.args) == 0 {
		return errCapture
	}
	if _, ok := captured.args[0].([]byte); !ok {
		return errCapture
	}
	b.source, b.script = captured.source, redis.NewScript(captured.source)
	return nil
}
