package asynq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

// pipelineSize bounds a round trip: enough to make its latency small change, and
// few enough that other clients of Redis get in between.
const pipelineSize = 100

// Enqueue sends the messages in pipelines of 100. A message that Redis already
// has, under this very claim, counts as accepted: it is the answer that was lost.
func (b *Backend) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	results := make([]waybill.Result, len(messages))
	encoder := b.newEncoder()
	for start := 0; start < len(messages); start += pipelineSize {
		end := min(start+pipelineSize, len(messages))
		if err := b.enqueue(ctx, encoder, messages[start:end], results[start:end]); err != nil {
			err = fmt.Errorf("enqueue on %s: %w", b.queue, err)
			copy(results[end:], waybill.AllResults(len(messages)-end, waybill.EnqueueNotSent, err))
			return results, err
		}
	}
	return results, nil
}

// enqueue sends one pipeline. Its error is the queue's, not that of a message.
func (b *Backend) enqueue(ctx context.Context, encoder *encoder, messages []waybill.Message, results []waybill.Result) error {
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	sendings := make([]*sending, 0, len(messages))
	for i, message := range messages {
		c, err := encoder.encode(ctx, message)
		if err != nil {
			results[i] = waybill.Result{Status: waybill.EnqueueRefused, Err: err}
			continue
		}
		sendings = append(sendings, newSending(c, &results[i]))
	}
	queues := encoder.capture.queues
	encoder.capture.queues = nil
	if err := b.send(ctx, sendings, queues); err != nil {
		return err
	}
	unknownScript := make([]*sending, 0)
	for _, s := range sendings {
		if redis.HasErrorPrefix(s.result.Err, "NOSCRIPT") {
			unknownScript = append(unknownScript, s)
		}
	}
	if len(unknownScript) == 0 {
		return nil
	}
	// Redis forgets scripts when it restarts. It ran none of these.
	if err := b.script.Load(ctx, b.config.Redis).Err(); err != nil {
		for _, s := range unknownScript {
			*s.result = waybill.Result{Status: waybill.EnqueueNotSent, Err: err}
		}
		return fmt.Errorf("load script: %w", err)
	}
	return b.send(ctx, unknownScript, nil)
}

// send runs the calls in one pipeline and judges each.
func (b *Backend) send(ctx context.Context, sendings []*sending, queues []any) error {
	if len(sendings) == 0 {
		return nil
	}
	pipe := b.config.Redis.Pipeline()
	for _, s := range sendings {
		s.body.written = false
		s.reply = pipe.EvalSha(ctx, b.script.Hash(), s.call.keys, s.call.args...)
	}
	if len(queues) > 0 {
		pipe.SAdd(ctx, queuesKey, queues...) // serves Asynq's tools only, so its reply is no matter
	}
	_, err := pipe.Exec(ctx)
	var unwell error
	for _, s := range sendings {
		if cause := s.judge(err); unwell == nil {
			unwell = cause
		}
	}
	return unwell
}

// sending is one message on its way.
type sending struct {
	call   call
	body   *body
	reply  *redis.Cmd
	result *waybill.Result
}

func newSending(c call, result *waybill.Result) *sending {
	s := &sending{call: c, result: result, body: &body{data: c.args[0].([]byte)}}
	s.call.args[0] = s.body
	return s
}

// body is a message that knows whether it was ever written to a connection. The
// client retries by itself, so that its last error tells nothing of the first
// attempt: "connection refused" may follow a reply that was lost.
type body struct {
	data    []byte
	written bool
}

// MarshalBinary is called by the client as it writes the command.
func (b *body) MarshalBinary() ([]byte, error) {
	b.written = true
	return b.data, nil
}

// judge says what became of the message, given the pipeline's error, and returns
// an error if it concerns the whole queue.
func (s *sending) judge(pipelineErr error) error {
	n, err := s.reply.Int64()
	if err == nil && (n == 0 || n == 1) {
		*s.result = waybill.Result{Status: waybill.EnqueueAccepted}
		return nil
	}
	if s.reply.Err() == nil {
		// The client leaves a command blank when a connection is refused by
		// the server itself, over the password for one.
		err = pipelineErr
		if err == nil {
			err = fmt.Errorf("unexpected reply %v", s.reply.Val())
		}
	}
	var reply redis.Error
	switch {
	case !s.body.written:
		*s.result = waybill.Result{Status: waybill.EnqueueNotSent, Err: err}
		return err
	case !errors.As(err, &reply):
		*s.result = waybill.Result{Status: waybill.EnqueueUnknown, Err: err}
		return err
	case redis.HasErrorPrefix(err, "NOSCRIPT"):
		*s.result = waybill.Result{Status: waybill.EnqueueNotSent, Err: err}
		return nil // for the caller to mend
	case concernsQueue(reply):
		*s.result = waybill.Result{Status: waybill.EnqueueNotSent, Err: err}
		return err
	default:
		*s.result = waybill.Result{Status: waybill.EnqueueRefused, Err: err}
		return nil
	}
}

// concernsQueue tells an error that the next message would get as well. Redis ran
// nothing then.
func concernsQueue(reply redis.Error) bool {
	code, _, _ := strings.Cut(reply.Error(), " ")
	switch code {
	case "OOM", "READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN",
		"MISCONF", "BUSY", "NOAUTH", "NOPERM", "WRONGPASS", "WRONGTYPE":
		return true
	}
	return false
}
