package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// Where a queue is kept in the store's own database, a claim and its messages are
// one transaction: whatever dies in it, there are both or neither, and no row waits
// for its lease because its message was never sent.
//
// It is all or nothing, so that it cannot say which of the messages was refused, and
// what the queue is like that refused it. Then nothing is claimed, and the claim is
// made again in the plain way, whose answers tell.

// claim claims rows, in the store or in one of its transactions.
type claim func(ctx context.Context, claims waybill.Claimer) (load, error)

// joint returns those of the routes that can be carried jointly. A queue that is
// down is tried in the plain way until it is well, and one that keeps failing in
// transactions alone is asked to take part ever less often.
func (r *Relay) joint(routes []*route) (joint []*route) {
	if r.claimer == nil {
		return nil
	}
	for _, route := range routes {
		if route.tx != nil && route.failures == 0 && !time.Now().Before(route.jointAt) {
			joint = append(joint, route)
		}
	}
	return joint
}

// carryJointly claims rows, and hands off those for the joint routes, in one
// transaction; what else was claimed is dealt with when that is committed. Like a
// claim it is seen through also when the relay stops. What comes of it is counted
// after the commit: until then it may be undone, and done again.
func (r *Relay) carryJointly(ctx context.Context, claim claim, joint []*route) (int, error) {
	var got load
	err := r.claimer.ClaimTx(context.WithoutCancel(ctx), func(ctx context.Context, tx any, claims waybill.Claimer) (err error) {
		if got, err = claim(ctx, claims); err != nil {
			return err
		}
		for _, route := range joint {
			if got.bound[route], err = r.extend(ctx, claims, got.bound[route], got.until); err != nil {
				return err
			}
			if err := route.enqueueTx(ctx, tx, messages(got.bound[route])); err != nil {
				return &enqueueError{route, err}
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	r.observe(waybill.ObservedClaim, got.claimed)
	for _, route := range joint {
		sent := messages(got.bound[route])
		if len(sent) > 0 {
			route.apart = 0
		}
		r.sortResults(route, sent, waybill.AllResults(len(sent), waybill.EnqueueAccepted, nil))
		delete(got.bound, route)
	}
	return got.claimed, r.dispatch(ctx, got)
}

// enqueueTx adds the messages to the queue in a transaction of its database.
func (r *route) enqueueTx(ctx context.Context, tx any, messages []waybill.Message) error {
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	return r.tx.EnqueueTx(ctx, tx, messages)
}

// enqueueError is a transaction that was rolled back because a queue did not take
// part in it, and not because of the store.
type enqueueError struct {
	route *route
	err   error
}

func (e *enqueueError) Error() string {
	return fmt.Sprintf("enqueue in one transaction with the claim, site=%s: %v", e.route.site, e.err)
}

func (e *enqueueError) Unwrap() error { return e.err }

// fellApart reports whether a joint claim came to nothing because of a queue, and
// notes it. A queue that is kept elsewhere is not asked again.
func (r *Relay) fellApart(err error) bool {
	var failed *enqueueError
	if !errors.As(err, &failed) {
		return false
	}
	site := string(failed.route.site)
	if errors.Is(err, waybill.ErrOtherDatabase) {
		failed.route.tx = nil
		r.log.Info("queue and rows are kept in two databases, so claim and hand-off are two steps", "site", site)
	} else {
		wait := failed.route.fellApart()
		r.log.Warn("claim and hand-off in one transaction did not succeed, trying them one after the other",
			"site", site, "error", failed.err, "again_in", wait.Round(time.Millisecond).String())
	}
	return true
}
