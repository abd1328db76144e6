package declare

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/waybill-go/waybill"
)

// runner makes what runs a receiver of a section of the file, nil if something is
// wrong with it.
type runner func(s *section, receiver waybill.Receiver) func(context.Context, *waybill.Delivery) error

// runners by the name of their section. A receiver has exactly one.
var runners = map[string]runner{"http": httpRunner, "exec": execRunner}

var (
	runnerNames    = []string{"http", "exec"}
	receiverFields = append([]string{"key", "event", "lane", "site", "lease", "timeout", "heartbeat",
		"max_attempts", "backoff", "give_up_after"}, runnerNames...)
)

// receiver reads one receiver and returns the line of its key. A receiver without
// a key is returned as none.
func (r *reader) receiver(node *yaml.Node, number int) (waybill.Receiver, int) {
	s := r.section(node, title(node, number))
	if s.node == nil {
		return waybill.Receiver{}, 0
	}
	receiver := waybill.Receiver{Key: s.required("key", "give the receiver a name of its own")}
	if receiver.Key != "" {
		s.check("key", waybill.Receiver{Key: receiver.Key})
	}
	receiver.Event = s.event()
	s.options(&receiver)
	receiver.Run = s.run(receiver)
	s.done(receiverFields...)
	return receiver, s.fields["key"].line
}

// title is how errors call a receiver: by its key, or by its place in the list.
func title(node *yaml.Node, number int) string {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		name, value := resolve(node.Content[i]), resolve(node.Content[i+1])
		if name.Value == "key" && value.Kind == yaml.ScalarNode && value.Value != "" {
			return fmt.Sprintf("receiver %.60q: ", value.Value)
		}
	}
	return fmt.Sprintf("receiver %d: ", number)
}

func (s *section) required(name, hint string) string {
	if _, ok := s.fields[name]; !ok {
		s.fail(name, "is missing; %s", hint)
		return ""
	}
	return s.text(name)
}

func (s *section) event() string {
	if f, ok := s.fields["event"]; ok && f.value.Kind == yaml.SequenceNode {
		s.take("event")
		s.fail("event", "want one event; declare a receiver for each, or '*' for every event")
		return ""
	}
	event := s.required("event", "name the event it is owed, or '*' for every event")
	if event != "" {
		s.check("event", waybill.Receiver{Event: event})
	}
	return event
}

// options reads what waybill.Options says. Each field is checked by itself, so
// that an error points to its line, and then together with the others.
func (s *section) options(receiver *waybill.Receiver) {
	before := len(s.problems)
	o := &receiver.Options
	o.Lane = s.text("lane")
	s.check("lane", waybill.Receiver{Options: waybill.Options{Lane: o.Lane}})
	o.Site = waybill.Site(s.text("site"))
	s.check("site", waybill.Receiver{Options: waybill.Options{Site: o.Site}})
	o.Lease = s.duration("lease")
	o.Timeout = s.duration("timeout")
	o.Heartbeat = s.flag("heartbeat")
	o.MaxAttempts = s.count("max_attempts")
	o.GiveUpAfter = s.duration("give_up_after")
	if node := s.take("backoff"); node != nil {
		curve := s.section(node, s.path+"backoff.")
		o.Backoff = waybill.Backoff{Base: curve.duration("base"), Cap: curve.duration("cap")}
		curve.done("base", "cap")
		s.check("backoff", waybill.Receiver{Options: waybill.Options{Backoff: o.Backoff}})
	}
	if len(s.problems) > before {
		return
	}
	lease := cmp.Or(o.Lease, waybill.DefaultLease)
	switch {
	case o.Heartbeat && o.Timeout == 0:
		s.fail("heartbeat", "needs a timeout, up to which it extends the lease")
	case !o.Heartbeat && o.Timeout >= lease:
		s.fail("timeout", "%s must be below the lease of %s; raise the lease, or declare heartbeat: true", o.Timeout, lease)
	default:
		s.check("lease", waybill.Receiver{Options: *o})
	}
}

// run reads the section that says what runs the receiver.
func (s *section) run(receiver waybill.Receiver) func(context.Context, *waybill.Delivery) error {
	var found []string
	for _, name := range runnerNames {
		if _, ok := s.fields[name]; ok {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		at := runnerNames[0]
		if len(found) > 0 {
			at = found[len(found)-1]
		}
		s.fail(at, "say what runs the receiver, with exactly one of: %s", strings.Join(runnerNames, ", "))
		for _, name := range found {
			s.take(name)
		}
		return nil
	}
	node := s.take(found[0])
	if node == nil {
		return nil
	}
	inner := s.section(node, s.path+found[0]+".")
	if inner.node == nil {
		return nil
	}
	return runners[found[0]](inner, receiver)
}

// check asks the registry what it thinks of a receiver of which only the field in
// question is declared.
func (s *section) check(name string, receiver waybill.Receiver) {
	receiver.Key = cmp.Or(receiver.Key, "probe")
	receiver.Event = cmp.Or(receiver.Event, waybill.AnyEvent)
	receiver.Run = func(context.Context, *waybill.Delivery) error { return nil }
	probe := waybill.NewRegistry()
	probe.Add(receiver)
	if err := probe.Err(); err != nil {
		s.fail(name, "%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("receiver %q: ", receiver.Key)))
	}
}
