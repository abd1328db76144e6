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
	return throughErr(ctx, s, "Check", func() error { return s.TxStore.Check(ctx) })
}

func (s *Store) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	return through(ctx, s, "Claim", func() ([]waybill.ClaimedRow, error) { return s.TxStore.Claim(ctx, request) })
}

func (s *Store) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	return through(ctx, s, "ClaimLapsed", func() ([]waybill.ClaimedRow, error) { return s.TxStore.ClaimLapsed(ctx, request) })
}

func (s *Store) OwedReceivers(ctx context.Context, except []string) ([]string, error) {
	return through(ctx, s, "OwedReceivers", func() ([]string, error) { return s.TxStore.OwedReceivers(ctx, except) })
}

func (s *Store) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	return through(ctx, s, "GiveBack", func() ([]int64, error) { return s.TxStore.GiveBack(ctx, rows) })
}

func (s *Store) Listen(ctx context.Context, wake func()) error {
	return throughErr(ctx, s, "Listen", func() error { return s.TxStore.Listen(ctx, wake) })
}

func (s *Store) Take(ctx context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	return through(ctx, s, "Take", func() ([]*waybill.Delivery, error) { return s.TxStore.Take(ctx, request) })
}

func (s *Store) Look(ctx context.Context, ids []int64) ([]waybill.RowState, error) {
	return through(ctx, s, "Look", func() ([]waybill.RowState, error) { return s.TxStore.Look(ctx, ids) })
}

func (s *Store) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	return through(ctx, s, "Extend", func() ([]int64, error) { return s.TxStore.Extend(ctx, rows) })
}

func (s *Store) Ack(ctx context.Context, acks []waybill.Ack) ([]int64, error) {
	return through(ctx, s, "Ack", func() ([]int64, error) { return s.TxStore.Ack(ctx, acks) })
}

func (s *Store) RunTx(ctx context.Context, ack waybill.Ack, run func(ctx context.Context, tx any) error) (bool, error) {
	return through(ctx, s, "RunTx", func() (bool, error) { return s.TxStore.RunTx(ctx, ack, run) })
}
