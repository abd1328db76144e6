package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-go/waybill/internal/services"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "w.db"),
		"postgres": services.Postgres(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := []struct {
				args []string
				want string
			}{
				{[]string{"migrate", "status"}, "not applied\n"},
				{[]string{"migrate", "down"}, "nothing to do\n"},
				{[]string{"migrate"}, "applied 00003_event_facts\n"},
				{[]string{"migrate", "up"}, "nothing to do\n"},
				{[]string{"migrate", "status"}, "  applied 20"},
				{[]string{"status"}, "RECEIVER"},
				{[]string{"migrate", "down"}, "took back 00003_"},
				{[]string{"migrate", "down"}, "took back 00002_"},
				{[]string{"migrate", "down"}, "took back 00001_"},
				{[]string{"migrate", "status"}, "not applied\n"},
				{[]string{"migrate", "up"}, "applied 00001_"},
			}
			for _, step := range steps {
				got := succeeds(t, append(step.args, "--store", store)...)
				if !strings.Contains(got.out, step.want) || got.err != "" {
					t.Errorf("%v = %+v, want %q", step.args, got, step.want)
				}
			}
		})
	}
}

// River's tables are migrated along with the store's, wherever they are, and are
// taken back apart from them.
func TestMigrateRiver(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, c := range map[string]struct{ store, backend string }{
		"in the store's file":     {"sqlite:" + filepath.Join(folder, "one.db"), "river:"},
		"in another file":         {"sqlite:" + filepath.Join(folder, "two.db"), "river+sqlite:" + filepath.Join(folder, "river.db")},
		"in the store's database": {services.Postgres(t), "river:"},
		"in another database":     {services.Postgres(t), "river+" + services.Postgres(t) + "&schema=other_river"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			receivers := filepath.Join(t.TempDir(), "receivers.yaml")
			if err := os.WriteFile(receivers, []byte(oneReceiver), 0o600); err != nil {
				t.Fatal(err)
			}
			args := func(args ...string) []string { return append(args, "--store", c.store, "--backend", c.backend) }
			relay := func() outcome {
				return bridge(t, args("relay", "--once", "--lane", "mail", "--receivers", receivers)...)
			}
			steps := func(args []string, applied, missing int) {
				t.Helper()
				got := succeeds(t, args...).out
				if n := strings.Count(got, "  applied 20"); n != applied {
					t.Errorf("%d steps are applied, want %d:\n%s", n, applied, got)
				}
				if n := strings.Count(got, "  not applied\n"); n != missing {
					t.Errorf("%d steps are missing, want %d:\n%s", n, missing, got)
				}
			}
			succeeds(t, "migrate", "--store", c.store)
			const ours = 3
			known := strings.Count(succeeds(t, args("migrate", "status")...).out, "river_0")
			steps(args("migrate", "status"), ours, known)
			checkFailure(t, relay(), 1, "backend: river: ", "run `bridge migrate` with this backend")

			if got := succeeds(t, args("migrate")...).out; strings.Count(got, "applied river_0") != known || strings.Contains(got, "00001") {
				t.Errorf("migrate with the backend = %s", got)
			}
			if got := succeeds(t, args("migrate", "up")...).out; got != "nothing to do\n" {
				t.Errorf("a second migrate = %s", got)
			}
			steps(args("migrate", "status"), ours+known, 0)
			steps([]string{"migrate", "status", "--store", c.store}, ours, 0)
			if got := relay(); got.code != 0 {
				t.Errorf("relay: %s", got.err)
			}

			if got := succeeds(t, args("migrate", "down", "--queue")...).out; !strings.HasPrefix(got, "took back river_") || strings.Count(got, "\n") != 1 {
				t.Errorf("migrate down --queue = %s", got)
			}
			checkFailure(t, relay(), 1, "lacks 1 of River's migrations")
			if got := succeeds(t, args("migrate", "down")...).out; !strings.HasPrefix(got, "took back 00003_") || strings.Count(got, "\n") != 1 {
				t.Errorf("migrate down = %s", got)
			}
			steps(args("migrate", "status"), ours-1+known-1, 1+1)
			print := succeeds(t, args("migrate", "print")...).out
			if own, river := strings.Index(print, "delivery"), strings.Index(print, "river_job"); own < 0 || river < own {
				t.Errorf("migrate print = %.300s", print)
			}
		})
	}
	checkFailure(t, bridge(t, "migrate", "down", "--queue", "--store", "sqlite:"+filepath.Join(folder, "one.db")), 2, "--queue: no backend with tables of its own")
}

// A backend without tables is not even asked, and one that cannot be read is refused.
func TestMigrateWithOtherBackends(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "w.db")
	checkFailure(t, bridge(t, "migrate", "--store", store, "--backend", "kafka://ann:secret@mq"), 1, "--backend: unknown scheme kafka")
	checkFailure(t, bridge(t, "migrate", "--store", store, "--backend", "river+postgres://ann:secret@"+closedPort(t)+"/app"), 1, "backend: PostgreSQL at ", "connection refused")
	for _, backend := range []string{"redis://ann:secret@", "amqp://ann:secret@"} {
		succeeds(t, "migrate", "--store", store, "--backend", backend+closedPort(t))
	}
}

func TestMigrateDownKeepsWhatIsOwed(t *testing.T) {
	t.Parallel()
	s := newSite(t, oneReceiver)
	succeeds(t, s.args("fire", "order.placed", "--payload", "1")...)
	for range 2 { // steps that hold no debts
		succeeds(t, "migrate", "down", "--store", s.store)
	}
	checkFailure(t, bridge(t, "migrate", "down", "--store", s.store), 1, "1 delivery still owed would be lost", "add --force")
	succeeds(t, "migrate", "--store", s.store)
	if s.owed() != 1 {
		t.Errorf("owed %d, want 1", s.owed())
	}
	for range 2 {
		succeeds(t, "migrate", "down", "--store", s.store)
	}
	succeeds(t, "migrate", "down", "--force", "--store", s.store)
	checkFailure(t, bridge(t, "status", "--store", s.store), 1, "run `bridge migrate`")
}

// TestMigratePrint: the scheme is enough, no server is asked.
func TestMigratePrint(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"postgres://ann:secret@" + closedPort(t) + "/app", "sqlite:waybill.db"} {
		if got := succeeds(t, "migrate", "print", "--store", store).out; !strings.Contains(got, "CREATE TABLE") || strings.Contains(got, "secret") {
			t.Errorf("migrate print for %s = %.200s", store, got)
		}
	}
}
