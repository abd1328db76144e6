package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-go/waybill"
)

// summary is what one relay --once did, for whoever reads cron's mail.
type summary struct {
	elsewhere bool // there is a queue outside this process

	mu        sync.Mutex
	claimed   int
	handedOff int // messages to that queue
	outcomes  map[waybill.Status]int
}

// observe counts.
func (s *summary) observe(seen waybill.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch seen.Kind {
	case waybill.ObservedClaim:
		s.claimed += seen.Count
	case waybill.ObservedEnqueue:
		if seen.Site == waybill.SiteTask {
			s.handedOff += seen.Count
		}
	case waybill.ObservedAck:
		if s.outcomes == nil {
			s.outcomes = map[waybill.Status]int{}
		}
		s.outcomes[seen.Status]++
	}
}

// print writes what was handed off, and a line for each status in which deliveries
// that ran in this process, or that needed no run, were left. "Nothing owed." is
// said only if nothing was claimed.
func (s *summary) print(w io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claimed == 0 {
		_, err := fmt.Fprintln(w, "Nothing owed.")
		return err
	}
	var text strings.Builder
	if s.elsewhere {
		fmt.Fprintf(&text, "handed off: %d\n", s.handedOff)
	}
	for _, status := range slices.Sorted(maps.Keys(s.outcomes)) {
		fmt.Fprintf(&text, "%s: %d\n", status, s.outcomes[status])
	}
	_, err := io.WriteString(w, text.String())
	return err
}
