package fault

import (
	"context"

	"github.com/waybill-go/waybill"
)

// Registry returns what was set last, or what the store itself declares.
func (s *Store) Registry() *waybill.Registry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.registry
}

func (s *Store) Check(ctx context.Context) error {
	return throughErr(ctx, s, "Check", func() error { return s.Inner.Check(ctx) })
}

func (s *Store) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	return claimer{s, s.Inner}.Claim(ctx, request)
}

func (s *Store) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	return claimer{s, s.Inner}.ClaimLapsed(ctx, request)
}

func (s *Store) OwedReceivers(ctx context.Context, except []string) ([]string, error) {
	return through(ctx, s, "OwedReceivers", func() ([]string, error) { return s.Inner.OwedReceivers(ctx, except) })
}

func (s *Store) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	return through(ctx, s, "GiveBack", func() ([]int64, error) { return s.Inner.GiveBack(ctx, rows) })
}

func (s *Store) Listen(ctx context.Context, lane string, wake func()) error {
	return throughErr(ctx, s, "Listen", func() error { return s.Inner.Listen(ctx, lane, wake) })
}

func (s *Store) Take(ctx context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	return through(ctx, s, "Take", func() ([]*waybill.Delivery, error) { return s.Inner.Take(ctx, request) })
}

func (s *Store) Progress(ctx context.Context, request waybill.ProgressRequest) (waybill.Progress, error) {
	return through(ctx, s, "Progress", func() (waybill.Progress, error) { return s.Inner.Progress(ctx, request) })
}

func (s *Store) Look(ctx context.Context, ids []int64) ([]waybill.RowState, error) {
	return through(ctx, s, "Look", func() ([]waybill.RowState, error) { return s.Inner.Look(ctx, ids) })
}

func (s *Store) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	return claimer{s, s.Inner}.Extend(ctx, rows)
}

func (s *Store) Ack(ctx context.Context, acks []waybill.Ack) ([]int64, error) {
	return through(ctx, s, "Ack", func() ([]int64, error) { return s.Inner.Ack(ctx, acks) })
}

func (s *Store) PauseLane(ctx context.Context, request waybill.PauseRequest) (waybill.Pause, error) {
	return through(ctx, s, "PauseLane", func() (waybill.Pause, error) { return s.Inner.PauseLane(ctx, request) })
}

func (s *Store) ResumeLane(ctx context.Context, lane string) (bool, error) {
	return through(ctx, s, "ResumeLane", func() (bool, error) { return s.Inner.ResumeLane(ctx, lane) })
}

func (s *Store) Pauses(ctx context.Context) ([]waybill.Pause, error) {
	return through(ctx, s, "Pauses", func() ([]waybill.Pause, error) { return s.Inner.Pauses(ctx) })
}

func (s *Store) RunTx(ctx context.Context, ack waybill.Ack, run func(ctx context.Context, tx any) error) (bool, error) {
	return through(ctx, s, "RunTx", func() (bool, error) { return s.Inner.RunTx(ctx, ack, run) })
}

func (s *Store) ClaimTx(ctx context.Context, work func(ctx context.Context, tx any, claims waybill.Claimer) error) error {
	return throughErr(ctx, s, "ClaimTx", func() error {
		return s.Inner.ClaimTx(ctx, func(ctx context.Context, tx any, claims waybill.Claimer) error {
			return work(ctx, tx, claimer{s, claims})
		})
	})
}

// claimer passes on the calls that may be made within a ClaimTx as well as without,
// under the same names.
type claimer struct {
	store *Store
	inner waybill.Claimer
}

func (c claimer) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	return through(ctx, c.store, "Claim", func() ([]waybill.ClaimedRow, error) { return c.inner.Claim(ctx, request) })
}

func (c claimer) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	return through(ctx, c.store, "ClaimLapsed", func() ([]waybill.ClaimedRow, error) { return c.inner.ClaimLapsed(ctx, request) })
}

func (c claimer) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	return through(ctx, c.store, "Extend", func() ([]int64, error) { return c.inner.Extend(ctx, rows) })
}
