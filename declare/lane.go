package declare

import (
	"fmt"
	"strings"

	"github.com/waybill-go/waybill"
)

// lane is a lane as the file declares it.
type lane struct {
	name    string
	options waybill.LaneOptions
}

// lanes reads the section lanes, in the file's order.
func (r *reader) lanes(top *section, reg *waybill.Registry) []lane {
	node := top.take("lanes")
	if node == nil {
		return nil
	}
	all := r.section(node, "lanes: ")
	var lanes []lane
	for _, name := range all.order {
		value := all.take(name)
		if err := refused(name, waybill.LaneOptions{}); err != "" {
			all.fail(name, "%s", err)
			continue
		}
		if _, ok := reg.Lane(name); ok {
			all.fail(name, "the program declares that lane already")
			continue
		}
		if value != nil {
			s := r.section(value, fmt.Sprintf("lane %.60q: ", name))
			lanes = append(lanes, lane{name, s.laneOptions(name)})
		}
	}
	return lanes
}

// laneOptions reads what waybill.LaneOptions says.
func (s *section) laneOptions(name string) waybill.LaneOptions {
	options := waybill.LaneOptions{HandOffLease: s.duration("handoff_lease")}
	if err := refused(name, options); err != "" {
		s.fail("handoff_lease", "%s", err)
	}
	s.done("handoff_lease")
	return options
}

// refused is what the registry has against a lane, nothing if it is well.
func refused(name string, options waybill.LaneOptions) string {
	probe := waybill.NewRegistry()
	probe.AddLane(name, options)
	if err := probe.Err(); err != nil {
		return strings.TrimPrefix(err.Error(), fmt.Sprintf("lane %q: ", name))
	}
	return ""
}
