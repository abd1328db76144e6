package fault_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
)

// declared is a store of which only the declarations may be asked.
type declared struct {
	fault.Inner
	registry *waybill.Registry
}

func (d declared) Registry() *waybill.Registry { return d.registry }

func (d declared) Check(context.Context) error { return errCheck }

func (d declared) Look(_ context.Context, ids []int64) ([]waybill.RowState, error) {
	return make([]waybill.RowState, len(ids)), nil
}

func (d declared) ClaimTx(ctx context.Context, work func(context.Context, any, waybill.Claimer) error) error {
	return work(ctx, nil, d)
}

func (d declared) Claim(context.Context, waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	return make([]waybill.ClaimedRow, 3), nil
}

var (
	errCheck = errors.New("the schema is old")
	errFault = errors.New("nobody answers")
)

// A call that no hook stands around would make a test of its fault pass in vain.
func TestStoreMakesEveryCallFail(t *testing.T) {
	t.Parallel()
	store := fault.NewStore(declared{registry: waybill.NewRegistry()})
	failing := 0
	for method := range reflect.TypeFor[fault.Inner]().Methods() {
		if n := method.Type.NumOut(); n == 0 || method.Type.Out(n-1) != reflect.TypeFor[error]() {
			continue
		}
		failing++
		store.On(method.Name, fault.Hook{Before: func(context.Context) error { return errFault }})
		call := reflect.ValueOf(store).MethodByName(method.Name)
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for i := 1; i < method.Type.NumIn(); i++ {
			args = append(args, reflect.Zero(method.Type.In(i)))
		}
		answer := call.Call(args)
		if got := answer[len(answer)-1].Interface(); got != errFault {
			t.Errorf("%s returned %v, want the hook's error", method.Name, got)
		}
		if got := store.Count(method.Name); got != 1 {
			t.Errorf("%s was counted %d times, want once", method.Name, got)
		}
	}
	if failing < 12 {
		t.Errorf("%d methods can fail, want them all", failing)
	}
}

func TestStoreLosesTheAnswer(t *testing.T) {
	t.Parallel()
	store := fault.NewStore(declared{registry: waybill.NewRegistry()})
	look := func(wantRows int, want error) {
		t.Helper()
		rows, err := store.Look(t.Context(), []int64{1, 2})
		if len(rows) != wantRows || !errors.Is(err, want) {
			t.Errorf("Look: %d rows, %v; want %d, %v", len(rows), err, wantRows, want)
		}
	}
	look(2, nil)
	store.On("Look", fault.Hook{After: func() error { return errFault }})
	look(0, errFault)
	store.On("Look", fault.Hook{After: func() error { return nil }})
	look(2, nil)
	store.On("Look", fault.Hook{})
	look(2, nil)
	if got := store.Count("Look"); got != 4 {
		t.Errorf("counted %d calls, want 4", got)
	}
	if err := store.Check(t.Context()); !errors.Is(err, errCheck) {
		t.Errorf("Check: %v, want the store's own error", err)
	}
}

func TestStoreStandsInForTheRegistry(t *testing.T) {
	t.Parallel()
	own, other := waybill.NewRegistry(), waybill.NewRegistry()
	store := fault.NewStore(declared{registry: own})
	if store.Registry() != own {
		t.Error("Registry is not the store's own")
	}
	store.SetRegistry(other)
	if store.Registry() != other {
		t.Error("Registry is not what was set")
	}
}

// What is called within a ClaimTx has the hooks that it has without.
func TestStoreStandsWithinATransaction(t *testing.T) {
	t.Parallel()
	store := fault.NewStore(declared{registry: waybill.NewRegistry()})
	claim := func() (rows []waybill.ClaimedRow, err error) {
		err = store.ClaimTx(t.Context(), func(ctx context.Context, _ any, claims waybill.Claimer) (err error) {
			rows, err = claims.Claim(ctx, waybill.ClaimRequest{})
			return err
		})
		return rows, err
	}
	if rows, err := claim(); len(rows) != 3 || err != nil {
		t.Errorf("claimed %d rows, %v; want 3", len(rows), err)
	}
	store.On("Claim", fault.Hook{After: func() error { return errFault }})
	if rows, err := claim(); len(rows) != 0 || !errors.Is(err, errFault) {
		t.Errorf("claimed %d rows, %v; want the hook's error", len(rows), err)
	}
	if claims, all := store.Count("Claim"), store.Count("ClaimTx"); claims != 2 || all != 2 {
		t.Errorf("counted %d claims in %d transactions, want 2 in 2", claims, all)
	}
}
