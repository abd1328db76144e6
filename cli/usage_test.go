package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

// Traps 17, 57 and 74: of two sizes one is ignored, nothing is read as everything, a flag is misspelt.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	s := newSite(t, "receivers:\n- {key: a, event: '*', http: {url: 'http://127.0.0.1:9'}}\n")
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"an unknown command", []string{"deliver"}, `unknown command "deliver"`},
		{"a misspelt command", []string{"statsu"}, "Did you mean this? status"},
		{"an unknown flag", []string{"relay", "--fast"}, "unknown flag: --fast: see 'bridge relay --help'"},
		{"an argument too many", []string{"status", "now"}, `unknown command "now" for "bridge status"`},
		{"an unknown migration", []string{"migrate", "sideways", "--store", s.store}, `unknown command "sideways" for "bridge migrate"`},
		{"a flag without its value", []string{"status", "--store"}, "flag needs an argument: --store"},
		{"a number that is none", []string{"relay", "--once", "--limit", "many"}, `invalid argument "many" for "--limit"`},
		{"a duration that is none", []string{"relay", "--poll", "5"}, `invalid argument "5" for "--poll"`},
		{"no store", []string{"status"}, "no store: set --store or WAYBILL_STORE"},
		{"no store to migrate", []string{"migrate"}, "no store: set --store or WAYBILL_STORE"},
		{"no receivers", []string{"relay", "--store", s.store, "--backend", s.backend}, "no receivers are declared: name their file with --receivers or WAYBILL_RECEIVERS"},
		{"no receivers to fire for", []string{"fire", "a", "--payload", "{}", "--store", s.store}, "no receivers are declared"},
		{"no backend", s.args("relay"), "no backend for receiver a: set --backend or WAYBILL_BACKEND"},
		{"once with two sizes", s.queueArgs("relay", "--once", "--limit", "5", "--batch-size", "5"), "leave out --batch-size"},
		{"a limit for ever", s.queueArgs("relay", "--limit", "5"), "--limit is for --once"},
		{"all lanes and one", s.queueArgs("relay", "--all-lanes", "--lane", "mail"), "exclude each other"},
		{"once and passes", s.queueArgs("relay", "--once", "--passes", "5"), "exclude each other"},
		{"no limit at all", s.queueArgs("relay", "--once", "--limit", "0"), "--limit 0: must be 1 or more"},
		{"no passes", s.queueArgs("relay", "--passes", "0"), "--passes 0: must be 1 or more"},
		{"no batch", s.queueArgs("relay", "--batch-size", "0"), "--batch-size 0: must be 1 or more"},
		{"no poll", s.queueArgs("relay", "--poll", "0s"), "--poll 0s: must be longer than nothing"},
		{"a wake of another kind", s.queueArgs("relay", "--wake", "bell"), "--wake bell: must be notify or poll"},
		{"a window of another kind", s.queueArgs("relay", "--window", "on"), "--window on: must be auto or off"},
		{"a horizon of no window", s.queueArgs("relay", "--window", "off", "--window-horizon", "1s"), "--window-horizon is for --window auto"},
		{"a horizon of nothing", s.queueArgs("relay", "--window-horizon", "0s"), "--window-horizon 0s: must be longer than nothing"},
		{"a wake interval below nothing", s.queueArgs("relay", "--wake-interval", "-1s"), "--wake-interval -1s: must not be negative"},
		{"no patience", s.queueArgs("relay", "--orphan-after", "-1s"), "--orphan-after -1s: must not be negative"},
		{"no slots", s.queueArgs("relay", "--slots", "0"), "--slots 0: must be 1 or more"},
		{"a lane twice", s.queueArgs("relay", "--lane", "default,default"), "--lane default is given twice"},
		{"an unknown level", s.queueArgs("relay", "--log-level", "loud"), "--log-level loud: want debug, info, warn or error"},
		{"an unknown format", s.queueArgs("relay", "--log-format", "xml"), "--log-format xml: want text, json or auto"},
		{"nothing to fire", s.args("fire"), "want NAME and --payload, or --file"},
		{"no payload", s.args("fire", "order.placed"), "want NAME and --payload, or --file"},
		{"a name for a file", s.args("fire", "order.placed", "--file", "x"), "leave out NAME and --payload"},
		{"no lane to pause", s.args("pause", "--reason", "x"), "accepts 1 arg(s), received 0"},
		{"a pause of no length", s.args("pause", "default", "--for", "0s", "--reason", "x"), "--for 0s: must be longer than nothing"},
		{"a pause for no reason", s.args("pause", "default"), "--reason is missing: say why"},
		{"no lane to resume", s.args("resume"), "accepts 1 arg(s), received 0"},
		{"a lane without receivers", []string{"pause", "default", "--reason", "x", "--store", s.store}, "no receivers are declared"},
		{"two names", s.args("fire", "a", "b", "--payload", "1"), "accepts at most 1 arg(s), received 2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checkFailure(t, bridge(t, test.args...), 2, test.want)
		})
	}
	worker := []struct {
		name string
		args []string
		want string
	}{
		{"worker: an argument", []string{"mail"}, "unknown command"},
		{"worker: no backend", s.args(), "no backend: set --backend or WAYBILL_BACKEND"},
		{"worker: a local backend", s.args("--backend", "local:"), "run 'bridge relay --backend local:'"},
		{"worker: no slots", s.queueArgs("--slots", "-1"), "--slots -1: must be 1 or more"},
		{"worker: no drain", s.queueArgs("--drain", "0s"), "--drain 0s: must be longer than nothing"},
		{"worker: no receivers", []string{"--store", s.store, "--backend", s.backend}, "no receivers are declared"},
	}
	for _, test := range worker {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := execute(t.Context(), cli.Worker(waybill.NewRegistry()), "", test.args...)
			checkFailure(t, got, 2, test.want, "see 'worker --help'")
		})
	}
}

// The environment belongs to the process, so this one does not run in parallel.
func TestFlagsBeatTheEnvironment(t *testing.T) {
	s := newSite(t, "receivers:\n- {key: a, event: '*', http: {url: 'http://127.0.0.1:9'}}\n")
	t.Setenv("WAYBILL_RECEIVERS", s.receivers)
	t.Setenv("DATABASE_URL", s.store)
	if got := succeeds(t, "status", "--json").out; !strings.Contains(got, `"key": "a"`) {
		t.Errorf("status with DATABASE_URL and WAYBILL_RECEIVERS = %s", got)
	}
	t.Setenv("WAYBILL_STORE", "mysql://ann:secret@db/app")
	checkFailure(t, bridge(t, "status"), 1, "WAYBILL_STORE: unknown scheme mysql")
	succeeds(t, "status", "--store", s.store)

	os.Unsetenv("WAYBILL_STORE")
	t.Setenv("DATABASE_URL", "mysql://ann:secret@db/app")
	checkFailure(t, bridge(t, "status"), 1, "DATABASE_URL: unknown scheme mysql: want postgres://")
	t.Setenv("REDIS_URL", "kafka://ann:secret@mq")
	checkFailure(t, bridge(t, "relay", "--store", s.store), 1, "REDIS_URL: unknown scheme kafka: want redis://")
	t.Setenv("WAYBILL_BACKEND", s.backend)
	succeeds(t, "relay", "--store", s.store, "--once")
	t.Setenv("WAYBILL_BATCH_SIZE", "sevensecret")
	checkFailure(t, bridge(t, "relay", "--store", s.store), 2, "WAYBILL_BATCH_SIZE in the environment is no value for --batch-size")
	t.Setenv("WAYBILL_BATCH_SIZE", "7")
	t.Setenv("WAYBILL_STRICT", "sosecret")
	checkFailure(t, bridge(t, "relay", "--store", s.store), 2, "WAYBILL_STRICT in the environment is no value for --strict, which is a bool")
	t.Setenv("WAYBILL_STRICT", "true")
	succeeds(t, "relay", "--store", s.store, "--once")
	t.Setenv("WAYBILL_LANE", "nowhere")
	checkFailure(t, bridge(t, "relay", "--store", s.store, "--once"), 1, `unknown lane "nowhere"`)
}
