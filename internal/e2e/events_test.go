package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// event is a line of an events file.
type event struct {
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload"`
}

// recorded is where real events are kept: 329 webhooks of GitHub. They are no
// part of the repository.
const recorded = "../../../shared/data/github-webhooks.jsonl"

// eventsFile returns a file of events and what is in it: the one that
// WAYBILL_TEST_EVENTS names, else the recorded ones, else as many made up.
func eventsFile(t *testing.T) (path string, events []event) {
	t.Helper()
	path = os.Getenv("WAYBILL_TEST_EVENTS")
	if path == "" {
		path = recorded
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = filepath.Join(t.TempDir(), "events.jsonl")
			if err := os.WriteFile(path, makeEvents(329), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("events from %s", path)
	return path, readEvents(t, text)
}

func readEvents(t *testing.T, text []byte) (events []event) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("event %d: %v", len(events)+1, err)
		}
		events = append(events, e)
	}
	return events
}

// makeEvents makes up n events as a file of lines. They are the same each time,
// and hold what tends to be lost on the way: bodies of up to 100 kB, deep
// nesting, numbers that no float64 holds, escapes, white space, and text in many
// scripts.
func makeEvents(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{
		"github.push", "github.issues.opened", "github.ping", "github.pull_request.closed", "github.release.published",
		"github.workflow_run.completed", "github.star.created", "github.check_run.rerequested", "github.gollum",
	}
	var file bytes.Buffer
	for i := range n {
		m := maker{random: random, size: 200 + random.IntN(8000)}
		if i%10 == 0 {
			m.size = 10_000 + random.IntN(90_000)
		}
		fmt.Fprintf(&file, `{"name":%q,"payload":{"delivery":%d`, names[i%len(names)], i)
		for start := file.Len(); file.Len()-start < m.size; {
			fmt.Fprintf(&file, `,"field_%d":%s`, file.Len(), m.value(0))
		}
		file.WriteString("}}\n")
	}
	return file.Bytes()
}

// maker writes JSON values at random.
type maker struct {
	random *rand.Rand
	size   int
}

// awkward are values that are easily changed by being read and written again.
var awkward = []string{
	`12345678901234567890123`, `-0`, `0.1000000000000000055511151231257827`, `1E+2`, `9007199254740993`, `2.50`,
	`null`, `true`, `[]`, `{}`, `""`, `" "`, `"caf\u00e9"`, `"\ud83d\ude00\u0000\/\b\f"`, `"<script>&amp;</script>"`,
	`"日本語のコミット"`, `"Ünïcödé – ½ €"`, `"עברית العربية"`, `"👩‍👩‍👧 🏳️‍🌈"`, `"line\nline\r\n\ttab"`, `{ "spaced" :  [ 1 ,2 ] }`,
	`{"b":1,"a":2}`, `"https:\/\/api.example.com\/repos?q=1&r=%2F"`,
}

func (m *maker) value(depth int) string {
	switch n := m.random.IntN(10); {
	case n < 5 || depth > 12:
		return awkward[m.random.IntN(len(awkward))]
	case n < 6:
		return fmt.Sprintf("%q", strings.Repeat("0123456789abcdef", m.random.IntN(m.size/100+2)))
	case n < 8:
		items := make([]string, m.random.IntN(5))
		for i := range items {
			items[i] = m.value(depth + 1)
		}
		return "[" + strings.Join(items, ",") + "]"
	default:
		items := make([]string, m.random.IntN(5))
		for i := range items {
			items[i] = fmt.Sprintf(`"key_%d":%s`, i, m.value(depth+1))
		}
		return "{" + strings.Join(items, ",") + "}"
	}
}
