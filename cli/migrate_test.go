package cli_test

import (
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
				{[]string{"migrate"}, "applied 00001_"},
				{[]string{"migrate", "up"}, "nothing to do\n"},
				{[]string{"migrate", "status"}, "  applied 20"},
				{[]string{"status"}, "RECEIVER"},
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

func TestMigrateDownKeepsWhatIsOwed(t *testing.T) {
	t.Parallel()
	s := newSite(t, oneReceiver)
	succeeds(t, s.args("fire", "order.placed", "--payload", "1")...)
	checkFailure(t, bridge(t, "migrate", "down", "--store", s.store), 1, "1 delivery still owed would be lost", "add --force")
	if s.owed() != 1 {
		t.Errorf("owed %d, want 1", s.owed())
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
