package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// listen begins to listen and returns a channel that is signalled by each wake
// after the first, which Listen gives at its start.
func listen(t *testing.T, store *sqlite.Store) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	woken, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- store.Listen(ctx, "default", func() { woken <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	wantWake(t, woken, "the start")
	return woken
}

func wantWake(t *testing.T, woken <-chan struct{}, by string) {
	t.Helper()
	select {
	case <-woken:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s woke nobody", by)
	}
}

func TestListenHearsThisProcess(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), sqlite.Memory, newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	first, second := listen(t, store), listen(t, store)
	store.Wake(t.Context())
	wantWake(t, first, "Wake")
	wantWake(t, second, "Wake")
	if err := fireRaw(t.Context(), store, 1); err != nil {
		t.Fatal(err)
	}
	wantWake(t, first, "InTx")
	wantWake(t, second, "InTx")
}

func TestListenHearsAnotherProcess(t *testing.T) {
	t.Parallel()
	store, path := newFile(t)
	woken := listen(t, store)
	process, _ := child(t, "fire", path)
	wantWake(t, woken, "a fire of another process")
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
}

// What relays and workers do themselves makes no row due: a relay that it woke
// would ask for rows once more for each of its own claims.
func TestListenIsDeafToClaims(t *testing.T) {
	t.Parallel()
	store, path := newFile(t)
	if err := fireRaw(t.Context(), store, 10); err != nil {
		t.Fatal(err)
	}
	woken := listen(t, store)
	other := newStore(t, path, newRegistry())
	messages, err := claimPlain(t.Context(), other, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := takeAndAck(t.Context(), other, messages); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
		t.Error("a claim, a take or an acknowledgement woke")
	case <-time.After(150 * time.Millisecond): // three looks at the file
	}
	if err := fireRaw(t.Context(), other, 1); err != nil {
		t.Fatal(err)
	}
	wantWake(t, woken, "a fire")
}

// A row of a lane is no news to the relay of another one, also of another process.
func TestListenIsDeafToOtherLanes(t *testing.T) {
	t.Parallel()
	reg := newRegistry()
	reg.Add(waybill.Receiver{Key: "bulk", Event: "bulky", Options: waybill.Options{Lane: "bulk"},
		Run: func(context.Context, *waybill.Delivery) error { return nil }})
	path := filepath.Join(t.TempDir(), "waybill.db")
	store := newStore(t, path, reg)
	if _, err := store.Migrator().Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	woken, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- store.Listen(ctx, "bulk", func() { woken <- struct{}{} }) }()
	defer func() { cancel(); <-ended }()
	wantWake(t, woken, "the start")
	other := newStore(t, path, newRegistry()) // knows the default lane only
	if err := fireRaw(t.Context(), other, 1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
		t.Error("a row of another lane woke")
	case <-time.After(150 * time.Millisecond): // three looks at the file
	}
	if err := store.InTx(t.Context(), func(tx *sql.Tx) error {
		_, err := store.Fire(t.Context(), tx, waybill.RawEvent{Name: "bulky", Payload: []byte(`{}`)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	wantWake(t, woken, "a row of its lane")
}

func TestListenSaysThatItCannotHear(t *testing.T) {
	t.Parallel()
	store, _ := newFile(t)
	woken, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- store.Listen(t.Context(), "default", func() { woken <- struct{}{} }) }()
	wantWake(t, woken, "the start")
	for more := true; more; { // down to nothing
		down, err := store.Migrator().Down(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more = len(down) > 0
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on without a table to listen to")
	}
}
