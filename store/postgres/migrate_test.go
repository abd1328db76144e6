package postgres_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

// TestMigratorsSeeEachOther in a database whose transactions see nothing that was
// committed after their first statement, which is the wait for the lock.
func TestMigratorsSeeEachOther(t *testing.T) {
	t.Parallel()
	config := newPool(t, services.Postgres(t), 4).Config()
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	pool := newPoolOf(t, config)
	applied := migrateAtOnce(t, 4, func() *pgxpool.Pool { return pool })
	if n := count(t, pool, "SELECT count(*) FROM waybill.schema_version WHERE version_id > 0"); n != applied {
		t.Errorf("%d steps are applied, and all of them applied %d", n, applied)
	}
}

// migrateAtOnce has so many migrators go up at the same time, each on a pool of open's,
// and returns how many steps all of them applied.
func migrateAtOnce(t *testing.T, migrators int, open func() *pgxpool.Pool) int {
	t.Helper()
	var wg sync.WaitGroup
	var applied atomic.Int64
	for range migrators {
		migrator, err := postgres.NewMigrator(open(), "")
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			steps, err := migrator.Up(t.Context())
			if err != nil {
				t.Error(err)
			}
			applied.Add(int64(len(steps)))
		})
	}
	wg.Wait()
	return int(applied.Load())
}

// TestMigrateStopsAtWhatItDoesNotKnow: a step that was passed over, and one of a
// newer release, are for a person to look at.
func TestMigrateStopsAtWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	pool := newPool(t, services.Postgres(t), 1)
	migrate(t, pool, "")
	migrator, err := postgres.NewMigrator(pool, "")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "DELETE FROM waybill.schema_version WHERE version_id = 1")
	if _, err := migrator.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "is missing, and a later one was applied") {
		t.Errorf("Up over a gap: %v", err)
	}
	exec(t, pool, "INSERT INTO waybill.schema_version (version_id, is_applied) VALUES (1, true), (99999, true)")
	if down, err := migrator.Down(t.Context()); err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("Down from a newer release took back %v: %v", down, err)
	}
}

// TestAStepIsAppliedWholeOrNotAtAll: its second half fails, and the first is undone.
func TestAStepIsAppliedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	pool := newPool(t, services.Postgres(t), 2)
	exec(t, pool, "CREATE SCHEMA waybill; CREATE TABLE waybill.delivery (in_the_way int)", pgx.QueryExecModeSimpleProtocol)
	migrator, err := postgres.NewMigrator(pool, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "00001_outbox") {
		t.Errorf("Up with a table in the way: %v", err)
	}
	if n := count(t, pool, "SELECT count(*) FROM pg_tables WHERE schemaname = 'waybill'"); n != 1 {
		t.Errorf("%d tables, want the one that is in the way", n)
	}
	exec(t, pool, "DROP TABLE waybill.delivery")
	migrate(t, pool, "")
}
