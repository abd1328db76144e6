//go:build soak && linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/services"
)

// skewVariable names a file that holds seconds, by which the wall clock of a
// program built by buildSkewed is wrong. It is read at every call of time.Now, so
// that the clock of a running process can be set.
const skewVariable = "WAYBILL_TEST_WALL_OFFSET"

// wallOffset is what such a program has in package time. It allocates nothing, and
// the runtime is not told of its system calls: it calls time.Now from places where
// neither is allowed.
const wallOffset = `package time

import (
	"syscall"
	"unsafe"
)

// offsetFile ends with a zero byte.
var offsetFile = func() (path [4096]byte) {
	name, _ := syscall.Getenv("` + skewVariable + `")
	copy(path[:len(path)-1], name)
	return path
}()

func wallOffset() (seconds int64) {
	const here = -100 // AT_FDCWD
	directory := here
	file, _, failed := syscall.RawSyscall6(syscall.SYS_OPENAT, uintptr(directory), uintptr(unsafe.Pointer(&offsetFile)), syscall.O_RDONLY|syscall.O_CLOEXEC, 0, 0, 0)
	if failed != 0 {
		return 0
	}
	var text [32]byte
	n, _, failed := syscall.RawSyscall(syscall.SYS_READ, file, uintptr(unsafe.Pointer(&text)), uintptr(len(text)))
	syscall.RawSyscall(syscall.SYS_CLOSE, file, 0, 0)
	if failed != 0 {
		return 0
	}
	sign := int64(1)
	for _, c := range text[:n] {
		if c == '-' {
			sign = -1
		} else if c >= '0' && c <= '9' {
			seconds = seconds*10 + int64(c-'0')
		}
	}
	return sign * seconds
}
`

// buildSkewed builds relay and worker anew, over a package time whose wall clock is
// wrong by what a file says; its monotonic clock is right. It compiles everything
// that there is, which takes minutes.
func buildSkewed(t *testing.T) (bridge, worker string) {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	// The one place where package time reads the wall clock to tell it.
	const reads = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	if n := strings.Count(string(text), reads); n != 1 {
		t.Fatalf("%s reads the wall clock in %d places that this test knows, want 1: see what this release of Go does", original, n)
	}
	changed := strings.Replace(string(text), reads, "\tsec, nsec, mono := runtimeNow()\n\tsec += wallOffset()\n\tif mono == 0 {", 1)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		original: write("time.go", changed),
		filepath.Join(filepath.Dir(original), "walloffset.go"): write("walloffset.go", wallOffset),
	}})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", "build", "-overlay", write("overlay.json", string(overlay)), "-o", dir+string(filepath.Separator), "../../cmd/bridge", "../../cmd/worker")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, out)
	}
	return filepath.Join(dir, "bridge"), filepath.Join(dir, "worker")
}

// skew is the error of one process's clock.
type skew struct {
	t    *testing.T
	file string
}

func newSkew(t *testing.T, seconds int) skew {
	t.Helper()
	s := skew{t, filepath.Join(t.TempDir(), "offset")}
	s.set(seconds)
	return s
}

// set steps the clock, at once: a process reads either value.
func (s skew) set(seconds int) {
	s.t.Helper()
	next := s.file + ".next"
	err := os.WriteFile(next, []byte(strconv.Itoa(seconds)), 0o600)
	if err == nil {
		err = os.Rename(next, s.file)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s skew) env() []string { return []string{skewVariable + "=" + s.file} }

// Two relays and two workers, one of each ten minutes ahead and one behind, whose
// clocks are set by an hour, forwards and backwards, while leases run. Neither the
// rows nor a queue mind: every attempt runs once, no lease lapses, a destination is
// left alone for as long as it asked, and the status is right.
func TestSoakClocksOfProcessesDoNotMatter(t *testing.T) {
	bridge, worker := buildSkewed(t)
	for _, backend := range []string{"asynq", "river", "rabbitmq"} {
		t.Run(backend, func(t *testing.T) {
			var mu sync.Mutex
			asked := map[string][]time.Time{} // by path and delivery
			sink := newSink(t, nil)
			sink.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				id := r.URL.Path + " " + r.Header.Get("Idempotency-Key")
				asked[id] = append(asked[id], time.Now())
				n := len(asked[id])
				mu.Unlock()
				switch {
				case isBusy(id) && n == 1:
					w.Header().Set("Retry-After", "2")
					w.WriteHeader(http.StatusServiceUnavailable)
				case r.URL.Path == "/fails" && n == 1:
					w.WriteHeader(http.StatusInternalServerError)
				default:
					time.Sleep(70 * time.Millisecond)
				}
			})
			d := deploy(t, fmt.Sprintf(`
receivers:
  - {key: plain, event: '*', lease: 20s, http: {url: %[1]s/plain}}
  - {key: fails, event: '*', lease: 20s, backoff: {base: 2s, cap: 2s}, http: {url: %[1]s/fails}}
  - {key: busy, event: '*', lane: busy, lease: 20s, give_up_after: 5m, http: {url: %[1]s/busy}}
`, sink.URL))
			switch backend {
			case "river":
				d.backend = "river:"
			case "rabbitmq":
				d.backend = services.RabbitMQ(t)
			}
			d.run(bridge, "migrate").succeed()
			d.exec(`CREATE SCHEMA app`)
			d.noteLapses()
			skews := []skew{newSkew(t, 600), newSkew(t, -600), newSkew(t, 600), newSkew(t, -600)}
			processes := []*process{
				d.runIn(skews[0].env(), bridge, "relay", "--all-lanes"), d.runIn(skews[1].env(), bridge, "relay", "--all-lanes"),
				d.runIn(skews[2].env(), worker, "--slots", "40"), d.runIn(skews[3].env(), worker, "--slots", "40"),
			}
			checkSkew(t, processes[0], 600)
			checkSkew(t, processes[3], -600)

			random, seed := seeded()
			const events, steps = 20, 60
			for step := range steps {
				d.fire(events)
				of := anyOf(random, skews)
				of.set(anyOf(random, []int{-600, 600, -3600, 3600, -4200, 4200}))
				if step%5 == 0 {
					d.checkStatus(bridge, skews[step%4])
				}
				time.Sleep(time.Second)
			}
			await(t, 2*time.Minute, "every delivery is settled", func() (bool, string) {
				time.Sleep(200 * time.Millisecond)
				return d.count(`SELECT count(*) FROM waybill.delivery WHERE settled_at IS NULL`) == 0, d.statuses()
			})
			if got, want := d.statuses(), fmt.Sprintf("succeeded %d", 3*events*steps); got != want {
				t.Errorf("deliveries: %s; want %s", got, want)
			}
			d.none("a lease that lapsed", `SELECT * FROM app.lapse`)
			d.none("a delivery with another number of runs than outcomes",
				`SELECT id, receiver, attempts, starts FROM waybill.delivery WHERE attempts <> CASE receiver WHEN 'fails' THEN 2 ELSE 1 END OR starts <> attempts`)
			mu.Lock()
			defer mu.Unlock()
			for id, times := range asked {
				want := 2
				if strings.HasPrefix(id, "/plain") || strings.HasPrefix(id, "/busy") && !isBusy(id) {
					want = 1
				}
				if len(times) != want {
					t.Errorf("%s was asked %d times, want %d", id, len(times), want)
				}
				if isBusy(id) && len(times) > 1 && times[1].Sub(times[0]) < 2*time.Second {
					t.Errorf("%s was asked again after %s, want the 2 s that it wanted at least", id, times[1].Sub(times[0]))
				}
			}
			t.Logf("%s, seed %d: %d deliveries under %d steps of the clocks", backend, seed, 3*events*steps, steps)
		})
	}
}

// isBusy reports whether a destination puts off what it is asked first. Each such
// answer pauses the lane, so it is a few.
func isBusy(pathAndDelivery string) bool {
	id, ok := strings.CutPrefix(pathAndDelivery, "/busy ")
	n, err := strconv.Atoi(id)
	return ok && err == nil && n/3%20 == 0
}

// checkSkew makes sure that the clock of the process is wrong: the first line that
// it logs has the time.
func checkSkew(t *testing.T, p *process, want int) {
	t.Helper()
	up(t, p)
	var line struct{ Time time.Time }
	if err := json.Unmarshal([]byte(strings.SplitN(p.err.String(), "\n", 2)[0]), &line); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(line.Time).Seconds() - float64(want); off > 60 || off < -60 {
		t.Fatalf("%s logged the time %s, want one that is %d s off", p.name, line.Time, want)
	}
}

// checkStatus asks for the status on a clock that is wrong.
func (d *deployment) checkStatus(bridge string, of skew) {
	d.t.Helper()
	var report struct {
		Oldest float64 `json:"oldest_owed_seconds"`
		Lanes  []struct {
			Waiting *float64 `json:"oldest_waiting_seconds"`
		}
	}
	text := d.runIn(of.env(), bridge, "status", "--json").succeed()
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		d.t.Fatalf("bridge status --json: %v: %s", err, text)
	}
	ages := []float64{report.Oldest}
	for _, lane := range report.Lanes {
		if lane.Waiting != nil {
			ages = append(ages, *lane.Waiting)
		}
	}
	for _, age := range ages {
		if age < 0 || age > 120 {
			d.t.Errorf("bridge status says that something is %.1f s old: %s", age, text)
		}
	}
}
