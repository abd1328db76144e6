package river

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/waybill-go/waybill"
)

// args are a job's arguments: the message, and nothing else. What is no message is
// no error to River, which would file it away for a day; the consumer drops it.
type args struct {
	message waybill.Message
	invalid error // why there is no message
}

func (args) Kind() string { return waybill.MessageKind }

func (a args) MarshalJSON() ([]byte, error) { return a.message.MarshalJSON() }

func (a *args) UnmarshalJSON(data []byte) error {
	a.invalid = json.Unmarshal(data, &a.message)
	return nil
}

// InsertOpts of every job: River tries it once, whatever its client's settings.
func (args) InsertOpts() queue.InsertOpts { return queue.InsertOpts{MaxAttempts: 1} }

// Hooks come with the job, so that a team's own client runs them as well.
func (args) Hooks() []rivertype.Hook { return []rivertype.Hook{dueSinceClaimed} }

var dueSinceClaimed = &dueHook{}

// dueHook makes a job due since its row was claimed. River would write the
// sender's clock and compare it with the database's: the messages of a relay
// whose clock is ahead would stay out of sight for as long.
type dueHook struct{ queue.HookDefaults }

// InsertBegin sets when the job is due. The sender's clock still counts where it
// is earlier: a database whose clock was set back stamps claims in its future.
func (*dueHook) InsertBegin(_ context.Context, params *rivertype.JobInsertParams) error {
	a, ok := params.Args.(args)
	if !ok {
		return fmt.Errorf("a job of kind %s with arguments of type %T", waybill.MessageKind, params.Args)
	}
	due := a.message.Claim.At.Time()
	if now := time.Now(); now.Before(due) {
		due = now
	}
	due = due.Truncate(time.Millisecond) // SQLite rounds, which is a moment in the future at times
	params.ScheduledAt = &due
	return nil
}

// job returns the job of a message. A message that would not come out as it went
// in is refused.
func (b *Backend) job(message waybill.Message) (queue.InsertManyParams, error) {
	body, err := json.Marshal(message)
	var arrived waybill.Message
	if err == nil {
		err = json.Unmarshal(body, &arrived)
	}
	if err == nil && arrived != message {
		err = fmt.Errorf("delivery %d: claimed_by is no UTF-8", message.DeliveryID)
	}
	if err != nil {
		return queue.InsertManyParams{}, fmt.Errorf("encode message: %w", err)
	}
	return queue.InsertManyParams{
		Args:       args{message: message},
		InsertOpts: &queue.InsertOpts{Queue: b.queue, MaxAttempts: 1},
	}, nil
}
