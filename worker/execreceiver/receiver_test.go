//go:build unix

package execreceiver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker/execreceiver"
)

func TestTheCommandGetsThePayloadAndTheFacts(t *testing.T) {
	t.Parallel()
	config := shell(t, `cat >payload; env >env; pwd >pwd`)
	config.Env = map[string]string{"CRM_TOKEN": "a b\nc", "LANG": "xx"}
	d := delivery()
	d.Target = "tenant 5/ü%\nx=y"
	if err := run(t, config, d); err != nil {
		t.Fatalf("outcome: %v", err)
	}
	if got := read(t, config.Dir, "payload"); got != string(d.Event.Payload) {
		t.Errorf("standard input = %q, want the payload %q", got, d.Event.Payload)
	}
	env := "\n" + read(t, config.Dir, "env")
	for _, want := range []string{
		"WAYBILL_DELIVERY_ID=42\n", "WAYBILL_EVENT=order.placed\n", "WAYBILL_EVENT_ID=7\n", "WAYBILL_ATTEMPT=3\n",
		"WAYBILL_EVENT_VERSION=2\n", "WAYBILL_CORRELATION_ID=réq 1\n",
		"WAYBILL_RECEIVER=crm sync\n", "WAYBILL_TARGET=tenant 5/ü%\nx=y\n", "CRM_TOKEN=a b\nc\n", "LANG=xx\n", "PATH=" + os.Getenv("PATH") + "\n",
	} {
		if !strings.Contains(env, "\n"+want) {
			t.Errorf("the environment lacks %q:\n%s", want, env)
		}
	}
	if got := strings.TrimSpace(read(t, config.Dir, "pwd")); !sameFile(t, got, config.Dir) {
		t.Errorf("it runs in %s, want %s", got, config.Dir)
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	one, err := os.Stat(a)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}

// The environment belongs to the process, so this one does not run in parallel.
func TestTheCommandIsNotTrustedWithTheWorkersEnvironment(t *testing.T) {
	t.Setenv("WAYBILL_STORE", "postgres://app:topsecret@db/app")
	t.Setenv("CRM_TOKEN", "topsecret")
	t.Setenv("WAYBILL_TARGET", "of somebody else")
	t.Setenv("LC_TIME", "C")
	config := shell(t, `env >env`)
	if err := run(t, config, delivery()); err != nil {
		t.Fatalf("outcome: %v", err)
	}
	env := read(t, config.Dir, "env")
	if strings.Contains(env, "secret") || strings.Contains(env, "WAYBILL_TARGET") || !strings.Contains(env, "LC_TIME=C\n") {
		t.Errorf("the environment is\n%s", env)
	}
}

// Exit codes beside what httpreceiver makes of 2xx, 410, 503 and 500.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	succeeded := waybill.Outcome{Status: waybill.Succeeded, Attempted: true}
	failed := waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 4 * time.Second}
	dead := waybill.Outcome{Status: waybill.Dead, Attempted: true}
	tests := []struct {
		name, script string
		defers       time.Duration
		permanent    []int
		give         time.Duration // the receiver's give-up-after
		want         waybill.Outcome
		wantErr      string
	}{
		{name: "0", script: "exit 0", want: succeeded},
		{name: "0 with an angry word", script: "echo no >&2", want: succeeded},
		{name: "1", script: "exit 1", want: failed, wantErr: "sh exited with 1"},
		{name: "1 with a word", script: "echo 'no  such'; echo 'customer' >&2; printf 'file\\n\\n' >&2; exit 1", want: failed, wantErr: "sh exited with 1: customer\nfile"},
		{name: "127", script: "no-such-program 2>/dev/null", want: failed, wantErr: "sh exited with 127"},
		{name: "a signal", script: "kill -KILL $$", want: failed, wantErr: "sh was ended by a signal: killed"},
		{name: "a signal with a number that defers", script: "kill -TERM $$", want: failed, wantErr: "sh was ended by a signal: terminated"},
		{name: "75 within give-up-after", script: "echo throttled >&2; exit 75", give: time.Hour,
			want: waybill.Outcome{Status: waybill.Failed, Deferred: true, Wait: 90 * time.Second, Pause: time.Minute}, wantErr: "sh exited with 75: throttled: deferred for 1m0s"},
		{name: "75 for another time", script: "exit 75", give: time.Hour, defers: 10 * time.Second,
			want: waybill.Outcome{Status: waybill.Failed, Deferred: true, Wait: 15 * time.Second, Pause: 10 * time.Second}, wantErr: "sh exited with 75: deferred for 10s"},
		{name: "75 counts without give-up-after", script: "exit 75",
			want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: time.Minute}, wantErr: "sh exited with 75: deferred for 1m0s"},
		{name: "65 as any other", script: "exit 65", want: failed, wantErr: "sh exited with 65"},
		{name: "65 that is permanent", script: "echo bad >&2; exit 65", permanent: []int{64, 65}, want: dead, wantErr: "sh exited with 65: bad"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := shell(t, test.script)
			config.DeferFor, config.PermanentExit = test.defers, test.permanent
			d := delivery()
			err := run(t, config, d)
			receiver := &waybill.Receiver{Key: d.Receiver, Options: waybill.Options{
				GiveUpAfter: test.give, Backoff: waybill.Backoff{Base: 2 * time.Second, Cap: time.Hour},
			}}
			got := waybill.Judge(receiver, d, err, d.DueAt, 0.5)
			if got.Error != test.wantErr {
				t.Errorf("error = %q, want %q", got.Error, test.wantErr)
			}
			got.Error, got.Notice = "", ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// A payload that is larger than a pipe and that nobody reads: the pipe that breaks is no
// failure, and one that stays open holds nobody up.
func TestAPayloadThatIsNotRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script string
		ok     bool
	}{
		{"exit 0", true},
		{"exec <&-; exit 0", true},
		{"exit 3", false},
		{"head -c 100 >/dev/null", true},
		{"sleep 60 & exit 0", true}, // has standard input open
	} {
		d := delivery()
		d.Event.Payload = bytes.Repeat([]byte("1234567 "), 1<<17)
		d.Lease = 2 * time.Second // a short grace
		started := time.Now()
		if err := run(t, shell(t, test.script), d); (err == nil) != test.ok {
			t.Errorf("%s: outcome = %v", test.script, err)
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("%s: it took %s", test.script, took)
		}
	}
}

func TestAPayloadOfAMegabyte(t *testing.T) {
	t.Parallel()
	config := shell(t, "cat >payload; head -c 1000000 payload")
	d := delivery()
	d.Event.Payload = bytes.Repeat([]byte("1234567 "), 1<<17)
	if err := run(t, config, d); err != nil {
		t.Fatalf("outcome: %v", err)
	}
	if read(t, config.Dir, "payload") != string(d.Event.Payload) {
		t.Error("the payload did not arrive byte for byte")
	}
}

func TestTheEndOfMuchOutput(t *testing.T) {
	t.Parallel()
	// é is cut in the middle wherever the cut is; \377 is no UTF-8.
	config := shell(t, `yes é | head -c 10485761 >&2; printf '\033[31m\377 the cause\000 \n' >&2; exit 1`)
	err := run(t, config, delivery())
	if err == nil {
		t.Fatal("outcome: none")
	}
	text := err.Error()
	if !utf8.ValidString(text) || len(text) > 1600 || !strings.HasPrefix(text, "sh exited with 1: …é\n") || !strings.HasSuffix(text, "é[31m\uFFFD the cause") {
		t.Errorf("%d bytes of error: %.60q … %q", len(text), text, text[max(0, len(text)-30):])
	}
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("k3y", 400)
	var log bytes.Buffer
	config := shell(t, `printf "$TOKEN" >&2; printf ' %8000s\n' "" >&2; echo "token $TOKEN of $NAME"; echo "no $TOKEN" >&2; exit 1`)
	config.Env = map[string]string{"TOKEN": secret, "NAME": "ann"}
	config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	err := run(t, config, delivery())
	if err == nil || !strings.HasSuffix(err.Error(), "no [hidden]") || strings.Contains(err.Error(), "k3y") {
		t.Errorf("outcome = %v", err)
	}
	if text := log.String(); strings.Contains(text, "k3y") || !strings.Contains(text, `stdout="token [hidden] of ann"`) {
		t.Errorf("the log says %s", text)
	}
}

func TestOutputIsLoggedAtDebug(t *testing.T) {
	t.Parallel()
	const script = `echo told; yes x | head -c 1000000; echo last; echo aside >&2`
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
		ctx := waybill.WithLogger(t.Context(), logger)
		d := delivery()
		if err := runIn(waybill.WithDelivery(ctx, d), t, shell(t, script), d); err != nil {
			t.Fatalf("outcome: %v", err)
		}
		text := log.String()
		if level == slog.LevelInfo && text != "" {
			t.Errorf("at INFO the log says %s", text)
		}
		if level == slog.LevelDebug && (strings.Count(text, "\n") != 2 || len(text) > 4000 || !strings.Contains(text, `x\nlast"`) ||
			!strings.Contains(text, "stderr=aside") || !strings.Contains(text, "delivery_id=42")) {
			t.Errorf("at DEBUG the log says %s", text)
		}
	}
}

func TestTimeoutLeavesRoomWithinTheLease(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		timeout, lease time.Duration
		want           string
	}{
		{"the lease bounds it", 0, 500 * time.Millisecond, "it did not exit within 400ms"},
		{"a declared one", 50 * time.Millisecond, time.Minute, "it did not exit within 50ms"},
		{"one too near to the lease", 499 * time.Millisecond, 500 * time.Millisecond, "it did not exit within 400ms"},
		{"one beyond the lease, extended by heartbeats", 300 * time.Millisecond, 100 * time.Millisecond, "it did not exit within 300ms"},
		{"no lease", 50 * time.Millisecond, 0, "it did not exit within 50ms"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := shell(t, "echo waiting >&2; exec sleep 60")
			config.Timeout = test.timeout
			d := delivery()
			d.Lease = test.lease
			err := run(t, config, d)
			if want := "sh was ended: " + test.want; err == nil || strings.TrimSuffix(err.Error(), ": waiting") != want {
				t.Errorf("outcome = %v, want %s", err, want)
			}
		})
	}
}

func TestARunThatIsOverBeforeItBegins(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(waybill.ErrStopping)
	config := shell(t, "echo ran >out")
	if err := runIn(ctx, t, config, delivery()); !errors.Is(err, waybill.ErrStopping) || exists(config.Dir, "out") {
		t.Errorf("outcome = %v", err)
	}
}

func TestAProgramThatGoesAwayLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hook := dir + "/hook"
	if err := os.Symlink("/bin/sh", hook); err != nil {
		t.Fatal(err)
	}
	receive, err := execreceiver.New(execreceiver.Config{Command: []string{hook, "-c", "exit 0"}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if err := receive(t.Context(), delivery()); err != nil {
			t.Errorf("run %d: %v", n, err)
		}
	}
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	err = receive(t.Context(), delivery())
	if want := fmt.Sprintf("%s was not started: ", hook); err == nil || !strings.HasPrefix(err.Error(), want) || waybill.IsPermanent(err) {
		t.Errorf("outcome = %v, want an error that another attempt can mend", err)
	}
}
