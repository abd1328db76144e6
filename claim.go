package waybill

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Stamp is a moment on the database's clock, in microseconds since 1970 (UTC).
//
// It is a whole number, and not a time.Time, because it is compared for
// equality: a claim's stamp is the fencing token of a row, and must survive the
// way through a queue exactly. The zero Stamp means "never".
type Stamp int64

// stampLayout is the only text form of a Stamp: RFC 3339, UTC, six digits.
const stampLayout = "2006-01-02T15:04:05.000000Z"

// StampOf returns t in microseconds; anything finer is cut off.
func StampOf(t time.Time) Stamp {
	if t.IsZero() {
		return 0
	}
	return Stamp(t.UnixMicro())
}

// ParseStamp reads the text form that String writes. Any other form of the same
// moment is refused: the text travels verbatim or not at all.
func ParseStamp(text string) (Stamp, error) {
	t, err := time.Parse(stampLayout, text)
	stamp := StampOf(t)
	if err != nil || stamp.String() != text { // time.Parse reads looser forms too
		return 0, fmt.Errorf("parse stamp %q: want the form %s", text, stampLayout)
	}
	return stamp, nil
}

// Time returns the moment in UTC.
func (s Stamp) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(s)).UTC()
}

// Add returns the stamp d later, cut to microseconds.
func (s Stamp) Add(d time.Duration) Stamp { return s + Stamp(d.Microseconds()) }

// String returns the stamp as RFC 3339 text in UTC with six fractional digits.
func (s Stamp) String() string { return time.UnixMicro(int64(s)).UTC().Format(stampLayout) }

// MarshalText writes the form of String.
func (s Stamp) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form of String and refuses every other.
func (s *Stamp) UnmarshalText(text []byte) error {
	parsed, err := ParseStamp(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

// Claim says who holds a row since when. It is the fence: every write after a
// claim is conditioned on both halves as the writer believes them. At is stamped
// by the database and never repeats on a row, so two claims of one row are never
// equal, even under a clock that steps back.
type Claim struct {
	By string
	At Stamp
}

// Complete reports whether both halves are there. Half a claim matches nothing.
func (c Claim) Complete() bool { return c.By != "" && c.At != 0 }

// String returns the claim for a log line.
func (c Claim) String() string { return c.By + "@" + c.At.String() }

// Message is all that a queue carries: which delivery, under which claim. It
// holds no payload, so a queue that loses, repeats, delays or reorders messages
// changes when a receiver runs, never whether.
type Message struct {
	DeliveryID int64
	Claim      Claim
}

// MessageKind names the message on every backend. A change of the three values
// is another kind, so that workers of two releases never misread each other.
const MessageKind = "waybill.deliver.v1"

// QueueName returns the name of a lane's queue, the same on every backend.
func QueueName(lane string) string { return "waybill-" + lane }

// wireMessage fixes the JSON form of a Message. Pointers tell "absent" from zero.
type wireMessage struct {
	DeliveryID *int64  `json:"delivery_id"`
	ClaimedBy  *string `json:"claimed_by"`
	ClaimedAt  *Stamp  `json:"claimed_at"`
}

// MarshalJSON writes {"delivery_id", "claimed_by", "claimed_at"}.
func (m Message) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireMessage{&m.DeliveryID, &m.Claim.By, &m.Claim.At})
}

// UnmarshalJSON reads what MarshalJSON writes. A message that lacks a value is
// refused: half a claim must never fall through as a whole one.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w wireMessage
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	if w.DeliveryID == nil || w.ClaimedBy == nil || w.ClaimedAt == nil {
		return fmt.Errorf("decode message: delivery_id, claimed_by and claimed_at are all required")
	}
	decoded := Message{DeliveryID: *w.DeliveryID, Claim: Claim{By: *w.ClaimedBy, At: *w.ClaimedAt}}
	if decoded.DeliveryID <= 0 || !decoded.Claim.Complete() {
		return fmt.Errorf("decode message: delivery %d: incomplete claim", decoded.DeliveryID)
	}
	// One such value would fail the statement of the whole batch it is taken in.
	if !storable(decoded.Claim.By) {
		return fmt.Errorf("decode message: delivery %d: claimed_by has a NUL", decoded.DeliveryID)
	}
	*m = decoded
	return nil
}

// NewOwner returns a claimed_by value for this process: id, or host:pid when id
// is empty, and always a random part. A restarted process is another owner, so
// that it can never take up, or acknowledge, what its predecessor held.
func NewOwner(id string) string {
	if id == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "localhost"
		}
		id = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	var random [6]byte
	rand.Read(random[:]) // never fails: the runtime aborts the program instead
	return cleanText(id) + ":" + hex.EncodeToString(random[:])
}
