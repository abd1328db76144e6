package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/waybill-go/waybill"
)

var dedupeCases = []testCase{
	{"a second event under the same key is refused, and its transaction goes on", func(b *scene) {
		b.start("a")
		b.exec("CREATE TABLE effect (n bigint)")
		first := b.fire(waybill.Envelope{Event: Parcel{N: 1}, DedupeKey: "parcel-1"})[0]
		before := b.rows()
		b.must(b.InTx(b.ctx, func(tx any) error {
			_, err := b.Fire(b.ctx, tx, waybill.Envelope{Event: Parcel{N: 2}, DedupeKey: "parcel-1"})
			wantDuplicate(b, err, "parcel-1", first)
			return b.ExecTx(b.ctx, tx, "INSERT INTO effect VALUES (1)")
		}))
		equal(b, "rows", b.rows(), before)
		equal(b, "events", b.count("SELECT count(*) FROM event"), 1)
		equal(b, "effects", b.count("SELECT count(*) FROM effect"), 1)
	}},
	{"one duplicate among many has none of them written", func(b *scene) {
		b.start("a")
		first := b.fire(waybill.Envelope{Event: Parcel{}, DedupeKey: "taken"})[0]
		before := b.rows()
		b.must(b.InTx(b.ctx, func(tx any) error {
			_, err := b.Fire(b.ctx, tx, Parcel{}, waybill.Envelope{Event: Parcel{}, DedupeKey: "free"},
				waybill.Envelope{Event: Parcel{}, DedupeKey: "taken"}, Parcel{})
			wantDuplicate(b, err, "taken", first)
			return nil
		}))
		equal(b, "rows", b.rows(), before)
		equal(b, "events", b.count("SELECT count(*) FROM event"), 1)
	}},
	{"the same key twice in one call is a duplicate", func(b *scene) {
		b.start("a")
		b.must(b.InTx(b.ctx, func(tx any) error {
			_, err := b.Fire(b.ctx, tx, waybill.Envelope{Event: Parcel{}, DedupeKey: "k"}, waybill.Envelope{Event: Parcel{}, DedupeKey: "k"})
			wantDuplicate(b, err, "k", 0)
			return nil
		}))
		equal(b, "events", b.count("SELECT count(*) FROM event"), 0)
		equal(b, "rows", len(b.rows()), 0)
	}},
	{"a key is free again after a rollback", func(b *scene) {
		b.start("a")
		keyed := waybill.Envelope{Event: Parcel{}, DedupeKey: "k"}
		err := b.InTx(b.ctx, func(tx any) error {
			if _, err := b.Fire(b.ctx, tx, keyed); err != nil {
				return err
			}
			return errRollBack
		})
		if !errors.Is(err, errRollBack) {
			b.Fatal(err)
		}
		b.fire(keyed)
		equal(b, "rows", len(b.rows()), 1)
	}},
	{"of many who fire under one key at once, one does", func(b *scene) {
		b.start("a")
		var fired, refused atomic.Int32
		var firing sync.WaitGroup
		for i := range 8 {
			firing.Go(func() {
				err := b.InTx(b.ctx, func(tx any) error {
					_, err := b.Fire(b.ctx, tx, Parcel{N: i}, waybill.Envelope{Event: Parcel{N: i}, DedupeKey: "once"})
					return err
				})
				switch {
				case err == nil:
					fired.Add(1)
				case errors.Is(err, waybill.ErrDuplicate):
					refused.Add(1)
				default:
					b.Error(err)
				}
			})
		}
		firing.Wait()
		equal(b, "fired and refused", fmt.Sprint(fired.Load(), refused.Load()), "1 7")
		equal(b, "rows", len(b.rows()), 2)
	}},
}

func wantDuplicate(b *scene, err error, key string, id int64) {
	b.Helper()
	var duplicate *waybill.DuplicateError
	if !errors.Is(err, waybill.ErrDuplicate) || !errors.As(err, &duplicate) {
		b.Fatalf("error %v, want ErrDuplicate", err)
	}
	equal(b, "duplicate", *duplicate, waybill.DuplicateError{Key: key, EventID: id})
}
