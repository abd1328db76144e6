package cli

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/waybill-go/waybill"
)

// changes are what two registries have not in common, a line each.
type changes struct {
	added, removed, changed int
	lines                   []change
}

// change is a line of the log.
type change struct {
	text       string
	attributes []any
}

// compare says what is new in next. How a receiver is run is no part of a registry.
func compare(was, next *waybill.Registry, ranBy, runsBy map[string]string) *changes {
	c := &changes{}
	for _, receiver := range next.Receivers() {
		before, ok := was.Receiver(receiver.Key)
		if !ok {
			c.added++
			c.say("receiver added", "receiver", receiver.Key, "event", receiver.Event, "lane", receiver.Lane, "lease", receiver.Lease.String())
			continue
		}
		differing := differences(receiverFacts(before), receiverFacts(receiver))
		if ran, runs := ranBy[receiver.Key], runsBy[receiver.Key]; ran != runs {
			name, _, _ := strings.Cut(runs, " ")
			differing = append(differing, name, "changed")
		}
		if len(differing) > 0 {
			c.changed++
			c.say("receiver changed", append([]any{"receiver", receiver.Key}, differing...)...)
		}
	}
	for _, receiver := range was.Receivers() {
		if _, ok := next.Receiver(receiver.Key); !ok {
			c.removed++
			c.say("receiver removed: what it is owed waits for a process that declares it", "receiver", receiver.Key, "lane", receiver.Lane)
		}
	}
	c.lanes(was, next)
	return c
}

func (c *changes) say(text string, attributes ...any) {
	c.lines = append(c.lines, change{text, attributes})
}

func (c *changes) lanes(was, next *waybill.Registry) {
	for _, lane := range next.Lanes() {
		if was.CheckLane(lane) != nil {
			c.say("lane added", "lane", lane)
		} else if differing := differences(laneFacts(was, lane), laneFacts(next, lane)); len(differing) > 0 {
			c.say("lane changed", append([]any{"lane", lane}, differing...)...)
		}
	}
	for _, lane := range was.Lanes() {
		if next.CheckLane(lane) != nil {
			c.say("lane removed: nobody declares it any more", "lane", lane)
		}
	}
}

// fact is a declared property, by its name in the file.
type fact struct{ name, value string }

func receiverFacts(r *waybill.Receiver) []fact {
	return []fact{
		{"event", r.Event}, {"lane", r.Lane}, {"site", string(r.Site)}, {"lease", r.Lease.String()}, {"timeout", r.Timeout.String()},
		{"heartbeat", fmt.Sprint(r.Heartbeat)}, {"max_attempts", fmt.Sprint(r.MaxAttempts)},
		{"backoff", r.Backoff.Base.String() + " to " + r.Backoff.Cap.String()}, {"give_up_after", r.GiveUpAfter.String()},
	}
}

func laneFacts(reg *waybill.Registry, lane string) []fact {
	options, _ := reg.Lane(lane)
	return []fact{{"handoff_lease", options.HandOffLease.String()}}
}

// differences are the attributes of a line that names what differs.
func differences(was, is []fact) (attributes []any) {
	for i, fact := range is {
		if fact != was[i] {
			attributes = append(attributes, fact.name, was[i].value+" → "+fact.value)
		}
	}
	return attributes
}

// tell logs a line for each change, and one that the file is in force.
func (c *changes) tell(log *slog.Logger, file string, receivers int) {
	slices.SortStableFunc(c.lines, func(a, b change) int { return strings.Compare(a.text, b.text) })
	for _, line := range c.lines {
		log.Info(line.text, line.attributes...)
	}
	log.Info("declarations read anew", "file", file, "receivers", receivers, "added", c.added, "removed", c.removed, "changed", c.changed)
}
