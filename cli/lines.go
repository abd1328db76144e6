package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
)

// Bounds of what is held in memory: one chunk, and one line.
const (
	chunkEvents = 500
	chunkBytes  = 4 << 20
	maxLine     = 64 << 20
)

// lines is a file of events, one JSON object a line. It is read as often as it is
// asked for, and never held in memory as a whole.
type lines struct {
	name   string
	file   *os.File
	remove func()
}

func openLines(stdin io.Reader, path string) (*lines, error) {
	file, remove, err := openFile(stdin, path)
	if err != nil {
		return nil, err
	}
	name := path
	if path == "-" {
		name = "standard input"
	}
	return &lines{name: name, file: file, remove: remove}, nil
}

func (l *lines) close() { l.remove() }

// each calls f with the file's events, in chunks and in order, and stops at the
// first line that is no event. Empty lines are passed over.
func (l *lines) each(ctx context.Context, f func([]wire.Event) error) error {
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", l.name, err)
	}
	in := bufio.NewReaderSize(l.file, 256<<10)
	var chunk []wire.Event
	size, total := 0, 0
	for number := 1; ; number++ {
		text, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", l.name, number, err)
		}
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			event, err := parseLine(ctx, text)
			if err != nil {
				return fmt.Errorf("%s:%d: %w; nothing was written", l.name, number, err)
			}
			chunk = append(chunk, event)
			size += len(text)
			total++
		}
		end := err != nil
		if len(chunk) > 0 && (end || len(chunk) == chunkEvents || size >= chunkBytes) {
			if err := f(chunk); err != nil {
				return err
			}
			chunk, size = nil, 0
		}
		if end && total == 0 {
			return fmt.Errorf(`%s holds no events: want one JSON object a line, {"name": "order.placed", "payload": {"id": 1}}`, l.name)
		}
		if end {
			return nil
		}
	}
}

// readLine returns a line of its own memory. io.EOF comes with the last one.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("the line is longer than %d MiB", maxLine>>20)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// eventLine is a line of a file of events.
type eventLine struct {
	Name    *string           `json:"name"`
	Payload json.RawMessage   `json:"payload"`
	Version int               `json:"version"`
	Headers map[string]string `json:"headers"`

	DedupeKey     string    `json:"dedupe_key"`
	OccurredAt    time.Time `json:"occurred_at"`
	CorrelationID string    `json:"correlation_id"`
}

func parseLine(ctx context.Context, text []byte) (wire.Event, error) {
	var line eventLine
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&line); err != nil {
		return wire.Event{}, fmt.Errorf(`not {"name": …, "payload": …}: %w`, plainer(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return wire.Event{}, errors.New("there is more than one JSON value on the line")
	}
	switch {
	case line.Name == nil:
		return wire.Event{}, errors.New(`"name" is missing`)
	case line.Payload == nil:
		return wire.Event{}, errors.New(`"payload" is missing`)
	}
	event := wire.Event{
		RawEvent:  waybill.RawEvent{Name: *line.Name, Version: line.Version, Payload: line.Payload, Headers: line.Headers},
		DedupeKey: line.DedupeKey, OccurredAt: line.OccurredAt, CorrelationID: line.CorrelationID,
	}
	return event, checkEvent(ctx, event)
}

// plainer words what encoding/json says for somebody who does not write Go.
func plainer(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("the line ends too early")
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("it is a JSON %s, not an object", wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Errorf("%q cannot be a JSON %s", wrong.Field, wrong.Value)
	}
	return err
}
