package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Several processes that migrate one new file at once all succeed, and each step
// is made once.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waybill.db")
	var (
		mu   sync.Mutex
		made int
		all  sync.WaitGroup
	)
	for range 6 {
		store := newStore(t, path, newRegistry())
		all.Go(func() {
			steps, err := store.Migrator().Up(t.Context())
			if err == nil {
				err = store.Check(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			made += len(steps)
			mu.Unlock()
		})
	}
	all.Wait()
	status, err := newStore(t, path, newRegistry()).Migrator().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if made != len(status) {
		t.Errorf("%d steps were made, want %d", made, len(status))
	}
	for _, step := range status {
		if step.AppliedAt.IsZero() {
			t.Errorf("step %d is not applied", step.Version)
		}
	}
}

// The script for those who apply changes by hand makes the file that Up makes.
func TestMigrateBySQL(t *testing.T) {
	t.Parallel()
	store, path := newFile(t)
	byHand := filepath.Join(t.TempDir(), "by hand.db")
	db := openRaw(t, byHand)
	if _, err := db.ExecContext(t.Context(), store.Migrator().SQL()); err != nil {
		t.Fatal(err)
	}
	if err := newStore(t, byHand, newRegistry()).Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, query := range []string{
		`SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name)`,
		`SELECT group_concat(version_id || ' ' || is_applied, ';') FROM (SELECT * FROM schema_version ORDER BY id)`,
		`PRAGMA journal_mode`,
	} {
		if diff := cmp.Diff(text(t, openRaw(t, path), query), text(t, db, query)); diff != "" {
			t.Errorf("by Up - by hand +\n%s", diff)
		}
	}
}

func text(t *testing.T, db *sql.DB, query string) (text string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}
