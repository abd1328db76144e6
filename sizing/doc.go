// Package sizing works out leases: how long one has to be for a backlog, what happens
// under one that is too short, and what a longer one costs. It talks to nothing;
// every figure is given to it, and every answer names the figures it rests on.
//
// # The rule
//
// A row's message has its lease's time to reach a worker. A backlog of so many rows
// ahead takes ahead ÷ drain until the last of them starts, so a burst of 28,000 on
// workers that settle 20 a second needs 1,400 s:
//
//	answer, err := sizing.Size(sizing.Load{
//		Ahead:   sizing.Typed(28_000),
//		Workers: sizing.Typed(20),
//		Service: sizing.Typed(time.Second),
//	})
//	answer.MinLease // 23m20s: the rule of thumb
//	answer.Wait     // 26m18s: what the last row waits at most, in 99 of 100 such bursts
//	answer.Lease    // 26m30s: the lease to declare
//
// The wait is longer than the rule: a drain that nobody measured is counted on by nine
// tenths, runs vary, and the relay takes its time. A drain that was measured, given
// as Live with its number of Samples, is counted on by more.
//
// # A lease that is there already
//
// With Load.Lease the same answer judges it: MaxBacklog rows fit, WorkersNeeded would
// make the backlog fit, and about StaleCopies messages are sent twice where it does
// not. If Converges is false it is worse: past CollapseBacklog every message is stale
// by the time a worker reaches it, each lapse adds another, and the queue never gets
// done, whatever it does afterwards.
//
// # A lane that is running
//
// Observe makes a Load of what a running lane's rows tell: what is ahead, what workers
// settled while the queue never ran empty, how long runs took, and what arrives besides.
// Any of it may be replaced by a figure of one's own before Size is asked. A drain that
// nobody saw is none: Observed.Problem says why, and LowerBound that it is the rate of
// arrivals.
//
// # What happens then
//
// Simulate runs a lane event by event, with workers that die, a broker that loses its
// messages and relays that go away:
//
//	result, err := sizing.Simulate(sizing.Simulation{Scenario: sizing.ScenarioBrokerLoss})
//
// By default its relays keep a window and a frontier (package window), under which a
// lease can be a minute whatever the backlog; WindowOff shows what these save.
//
// # Figures
//
// A figure is Typed, Live, or not given, and then a default stands in. Rates are rows
// a second, results are seconds in JSON. A question that has no answer is a *Refusal,
// which says what is wrong and what to do: nothing drains, rows arrive faster than
// they drain, a run is longer than its lease.
package sizing
