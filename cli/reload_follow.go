package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/worker"
)

// What relays and workers read at every step they follow. What they were made of they do
// not: which lanes they serve, and with which queues. Such declarations are refused as a
// whole, because a process that goes by half of a file is one that nobody understands.

// relayFollows says what of other declarations the relays of the process cannot go by.
func (a *app) relayFollows(next *waybill.Registry, f relayFlags, backend wire.Backend, store wire.Store, configs []relay.Config) error {
	lanes, err := servedLanes(next, f.lanes, f.allLanes, backend)
	for _, config := range configs {
		lane := config.Lane
		if !slices.Contains(lanes, lane) {
			continue // nothing is claimed for it
		}
		if config.Local == nil {
			for _, receiver := range next.LaneReceivers(lane) {
				if inRelay(receiver) {
					err = errors.Join(err, restart("receiver %q has site: relay, and no receiver of lane %q ran in this process when it started", receiver.Key, lane))
				}
			}
		}
		if was, is := longestHandOff(a.registry, lane), longestHandOff(next, lane); is > was && f.window.off() && strings.HasPrefix(a.backend, "amqp") {
			err = errors.Join(err, restart("rows of lane %q may wait for %s, and without a window the messages of this process expire after the %s that it started with", lane, is, was))
		}
		config.Store = redeclared{store, next}
		if _, refused := relay.New(config); refused != nil {
			err = errors.Join(err, refused)
		}
	}
	return err
}

// workerFollows says the same for a worker.
func workerFollows(next *waybill.Registry, lanes []string, all bool, config worker.Config, backend wire.Backend) error {
	_, err := servedLanes(next, lanes, all, backend)
	if store, ok := config.Store.(wire.Store); ok {
		config.Store = redeclared{store, next}
	}
	if _, refused := worker.New(config); refused != nil {
		err = errors.Join(err, refused)
	}
	return err
}

// servedLanes returns which of the lanes that a process serves are declared still. One
// that was named has to be; of all lanes there may be less, but no more.
func servedLanes(next *waybill.Registry, lanes []string, all bool, backend wire.Backend) ([]string, error) {
	if !all {
		return lanes, checkLanes(next, lanes, backend)
	}
	var err error
	for _, lane := range next.Lanes() {
		if !slices.Contains(lanes, lane) {
			err = errors.Join(err, restart("lane %q is new, and this process serves all lanes that it started with", lane))
		}
	}
	left := slices.DeleteFunc(slices.Clone(lanes), func(lane string) bool { return next.CheckLane(lane) != nil })
	return left, errors.Join(err, checkLanes(next, left, backend))
}

func restart(format string, args ...any) error {
	return fmt.Errorf(format+": restart it", args...)
}

// longestHandOff is the longest that a message of the lane may be of use.
func longestHandOff(reg *waybill.Registry, lane string) (longest time.Duration) {
	for _, receiver := range reg.LaneReceivers(lane) {
		longest = max(longest, reg.HandOffLease(receiver))
	}
	return longest
}
