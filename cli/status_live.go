package cli

import (
	"context"
	"slices"

	"github.com/waybill-go/waybill/internal/admin"
	"github.com/waybill-go/waybill/ops"
)

// maxProcesses is how many relays and workers one report is about: each is a
// connection, and an answer in memory.
const maxProcesses = 100

// statusProcesses are the processes at those addresses. One that is named twice must
// not count twice.
func statusProcesses(addrs []string) ([]ops.Process, error) {
	var processes []ops.Process
	for i, addr := range addrs {
		if err := checkAddress(addr); err != nil {
			return nil, err
		}
		if slices.Contains(addrs[:i], addr) {
			continue
		}
		processes = append(processes, ops.Process{Admin: addr, Metrics: func(ctx context.Context) ([]byte, error) {
			return admin.Metrics(ctx, addr)
		}})
	}
	if len(processes) > maxProcesses {
		return nil, usagef("--admin names %d processes: ask %d at a time", len(processes), maxProcesses)
	}
	return processes, nil
}

// askLive asks the processes aside, while the rest is asked. The answer is nil if there
// are none to ask.
func askLive(ctx context.Context, processes []ops.Process) (answer func() *ops.Live) {
	if len(processes) == 0 {
		return func() *ops.Live { return nil }
	}
	live := make(chan *ops.Live, 1)
	go func() { live <- ops.AskProcesses(ctx, processes) }()
	return func() *ops.Live { return <-live }
}
