package storetest

import (
	"strings"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

var migrateCases = []testCase{
	// Trap 75: a check that needs the tables which it keeps from being made.
	{"goes up, down and up again", func(b *scene) {
		b.start("a")
		b.must(b.Store.Check(b.ctx))
		steps := b.steps(true)
		again, err := b.Migrator.Up(b.ctx)
		b.must(err)
		equal(b, "steps that were missing", len(again), 0)
		b.parcels(1)
		for i := len(steps) - 1; i >= 0; i-- {
			down, err := b.Migrator.Down(b.ctx)
			b.must(err)
			equal(b, "steps taken back", len(down), 1)
			equal(b, "version taken back", down[0].Version, steps[i].Version)
			b.checkSays("bridge migrate")
		}
		b.steps(false)
		down, err := b.Migrator.Down(b.ctx)
		b.must(err)
		equal(b, "steps below the first", len(down), 0)

		up, err := b.Migrator.Up(b.ctx)
		b.must(err)
		equal(b, "steps applied", len(up), len(steps))
		for i, step := range up {
			equal(b, "version applied", step.Version, steps[i].Version)
		}
		b.must(b.Store.Check(b.ctx))
		equal(b, "rows", len(b.rows()), 0)
		equal(b, "rows after a fire", len(b.parcels(1)), 1)
	}},
	// Trap 78: SQL that is printed, and is not what would be done.
	{"is the same by hand", func(b *scene) {
		b.start("a")
		b.blank()
		b.checkSays("bridge migrate")
		b.steps(false)
		b.must(b.Exec(b.ctx, b.Migrator.SQL()))
		b.must(b.Store.Check(b.ctx))
		b.steps(true)
		again, err := b.Migrator.Up(b.ctx)
		b.must(err)
		equal(b, "steps that were missing", len(again), 0)
		equal(b, "rows after a fire", len(b.parcels(1)), 1)
		_, err = b.Migrator.Down(b.ctx)
		b.must(err)
	}},
	{"is safe for two at once", func(b *scene) {
		b.start("a")
		for range 3 {
			b.blank()
			var (
				wg      sync.WaitGroup
				mu      sync.Mutex
				applied int
			)
			for _, m := range []waybill.Migrator{b.Migrator, b.second().Migrator, b.second().Migrator} {
				wg.Go(func() {
					steps, err := m.Up(b.ctx)
					if err != nil {
						b.Error(err)
					}
					mu.Lock()
					applied += len(steps)
					mu.Unlock()
				})
			}
			wg.Wait()
			equal(b, "steps applied by all of them", applied, len(b.steps(true)))
			b.must(b.Store.Check(b.ctx))
		}
	}},
	{"of a newer release is left alone", func(b *scene) {
		b.start("a")
		b.exec("INSERT INTO schema_version (version_id, is_applied) VALUES (99999, true)")
		b.checkSays("upgrade")
		b.checkSays("99999")
		_, err := b.Migrator.Up(b.ctx)
		wantErr(b, "Up", err)
	}},
}

// blank takes everything away that Up made.
func (b *scene) blank() {
	b.Helper()
	for {
		down, err := b.Migrator.Down(b.ctx)
		b.must(err)
		if len(down) == 0 {
			break
		}
	}
	b.exec("DROP TABLE schema_version")
}

// steps returns all steps there are, which must be applied, or not.
func (b *scene) steps(applied bool) []waybill.Migration {
	b.Helper()
	steps, err := b.Migrator.Status(b.ctx)
	b.must(err)
	if len(steps) == 0 {
		b.Fatal("there are no steps")
	}
	for i, step := range steps {
		if step.Name == "" || i > 0 && step.Version <= steps[i-1].Version {
			b.Fatalf("steps %+v have no names or no order", steps)
		}
		if step.AppliedAt.IsZero() == applied {
			b.Fatalf("step %d: applied at %s, want applied %v", step.Version, step.AppliedAt, applied)
		}
		if applied {
			near(b, "applied", waybill.StampOf(step.AppliedAt), waybill.StampOf(time.Now()))
		}
	}
	return steps
}

// checkSays wants an error of one line that holds the text.
func (b *scene) checkSays(text string) {
	b.Helper()
	err := b.Store.Check(b.ctx)
	wantErr(b, "Check", err)
	if said := err.Error(); !strings.Contains(said, text) || strings.Contains(said, "\n") {
		b.Fatalf("Check says %q, want one line with %q", said, text)
	}
}
