//go:build soak

package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/services"
)

// team is the program in teamapp, with a database, a queue, and tables in which the
// database and the receivers write down what happened.
type team struct {
	*database
	backend string // URL
	lease   time.Duration
	env     []string // of every process
}

var teamappBin = sync.OnceValue(func() string {
	if err := build(binDir, "./teamapp"); err != nil {
		panic(err)
	}
	return filepath.Join(binDir, "teamapp")
})

// newTeam makes one whose queue is of the kind that a URL begins with.
func newTeam(t *testing.T, backend string, lease time.Duration) *team {
	t.Helper()
	s := &team{database: newDatabase(t), lease: lease}
	switch backend {
	case "redis":
		s.backend = services.OwnRedis(t).URL
	case "amqp":
		s.backend = services.RabbitMQ(t)
	default:
		s.backend = "river:"
	}
	s.start("migrate").succeed()
	s.exec(`CREATE SCHEMA app;
		CREATE TABLE app.run (delivery_id bigint NOT NULL, run_by text NOT NULL, begun timestamptz NOT NULL DEFAULT clock_timestamp());
		CREATE TABLE app.booking (delivery_id bigint NOT NULL, run_by text NOT NULL);
		CREATE TABLE app.killed (delivery_id bigint NOT NULL, run_by text NOT NULL);`)
	s.noteLapses()
	return s
}

func (s *team) start(args ...string) *process {
	s.t.Helper()
	return s.startIn(nil, args...)
}

func (s *team) startIn(env []string, args ...string) *process {
	s.t.Helper()
	return startIn(s.t, append(append([]string{
		"WAYBILL_STORE=" + s.url, "WAYBILL_BACKEND=" + s.backend, "TEAMAPP_LEASE=" + s.lease.String(), "WAYBILL_LOG_LEVEL=warn",
	}, s.env...), env...), teamappBin(), args...)
}

// place is where one process of the team runs after another.
type place struct {
	team  *team
	name  string
	args  []string
	run   *process
	owner string // what rows call this process, up to the random part
	count int
}

// fleet makes as many relays as workers, and starts them.
func (s *team) fleet(each int) (places []*place) {
	for i := range each {
		places = append(places,
			&place{team: s, name: fmt.Sprintf("relay%d", i+1), args: []string{"relay", "--all-lanes"}},
			&place{team: s, name: fmt.Sprintf("worker%d", i+1), args: []string{"worker", "--slots", "20"}})
	}
	for _, p := range places {
		p.start()
	}
	return places
}

func (p *place) start() {
	p.count++
	p.owner = p.name + "." + strconv.Itoa(p.count)
	// By its name at the database a test sees when nothing of it is left there.
	p.run = p.team.startIn([]string{"WAYBILL_WORKER_ID=" + p.owner, "PGAPPNAME=" + p.owner}, p.args...)
}

// awaitWork waits until the process has begun its part: a worker has taken rows of
// each receiver, while there are any. That it has started does not say that its queues bring anything yet:
// a client of River needs seconds on a busy machine.
func (p *place) awaitWork(load load) {
	p.team.t.Helper()
	up(p.team.t, p.run)
	if strings.HasPrefix(p.name, "worker") {
		await(p.team.t, patience, p.owner+" works", func() (bool, string) {
			return !load.run.running() || p.team.count(`SELECT count(DISTINCT receiver) FROM waybill.delivery
				WHERE starts_with(claimed_by, $1 || ':') AND taken_at IS NOT NULL`, p.owner) == 3, p.team.statuses()
		})
	}
}

// alive fails the test if the process has ended by itself.
func (p *place) alive() {
	p.team.t.Helper()
	if !p.run.running() {
		p.team.t.Fatalf("%s ended by itself: %s\n%s", p.owner, p.run.cmd.ProcessState, p.run.err.String())
	}
}

// kill is kill -9. It writes down which rows were taken and not settled when the
// process and its last statements had ended: the runs that were killed.
func (p *place) kill() {
	p.team.t.Helper()
	p.run.kill()
	await(p.team.t, patience, "the database knows that "+p.owner+" is gone", func() (bool, string) {
		return p.team.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, p.owner) == 0, ""
	})
	p.team.exec(`INSERT INTO app.killed SELECT id, claimed_by FROM waybill.delivery
		WHERE status = 'claimed' AND taken_at IS NOT NULL AND starts_with(claimed_by, $1 || ':')`, p.owner)
}

// load fires until told otherwise.
type load struct {
	team *team
	run  *process
}

func (s *team) load(rate, ahead int, lasts time.Duration) load {
	s.t.Helper()
	return load{s, s.start("load", "--rate", strconv.Itoa(rate), "--ahead", strconv.Itoa(ahead), "--for", lasts.String())}
}

// settle waits for the end of the load and until everything is settled, and returns
// how many deliveries there were.
func (l load) settle(places []*place, limit time.Duration) int {
	t := l.team.t
	t.Helper()
	events, err := strconv.Atoi(strings.TrimSpace(l.run.succeedWithin(limit)))
	if err != nil || events == 0 {
		t.Fatalf("load fired %q: %v", l.run.out.String(), err)
	}
	await(t, limit, "every delivery is settled", func() (bool, string) {
		for _, p := range places {
			p.alive()
		}
		time.Sleep(200 * time.Millisecond)
		return l.team.count(`SELECT count(*) FROM waybill.delivery WHERE status IN ('pending', 'claimed', 'failed')`) == 0, l.team.statuses()
	})
	return 4 * events
}

// checkRuns says what has to be true whatever was killed: nothing is lost, no
// attempt is spent, what is in the database happened once, and what is not happened
// again only where a run of it was killed, and once for each.
func (s *team) checkRuns(deliveries int) (killed, repeated int) {
	s.t.Helper()
	if got, want := s.statuses(), fmt.Sprintf("succeeded %d", deliveries); got != want {
		s.t.Errorf("deliveries: %s; want %s", got, want)
	}
	s.none("a delivery that never ran", `SELECT d.id, d.receiver, d.target FROM waybill.delivery d
		WHERE NOT EXISTS (SELECT FROM app.run r WHERE r.delivery_id = d.id) AND d.receiver <> 'tx.book'`)
	s.none("a delivery that was not booked exactly once", `SELECT d.id, count(b.delivery_id) FROM waybill.delivery d
		LEFT JOIN app.booking b ON b.delivery_id = d.id WHERE d.receiver = 'tx.book' GROUP BY d.id HAVING count(b.delivery_id) <> 1`)
	s.none("a delivery that ran more often than runs of it were killed, and once", `SELECT r.delivery_id, r.runs, k.kills
		FROM (SELECT delivery_id, count(*) AS runs FROM app.run GROUP BY 1) r
		LEFT JOIN (SELECT delivery_id, count(*) AS kills FROM app.killed GROUP BY 1) k USING (delivery_id)
		WHERE r.runs > 1 + coalesce(k.kills, 0)`)
	s.none("a delivery that spent attempts", `SELECT id, receiver, attempts, starts FROM waybill.delivery WHERE attempts <> 1`)
	s.none("a delivery with more runs than starts", `SELECT d.id, d.starts, count(*) FROM waybill.delivery d
		JOIN app.run r ON r.delivery_id = d.id GROUP BY d.id HAVING count(*) > d.starts`)
	return s.count(`SELECT count(*) FROM app.killed`),
		s.count(`SELECT (SELECT count(*) FROM app.run) - (SELECT count(DISTINCT delivery_id) FROM app.run)`)
}

// anyOf picks one at random.
func anyOf[T any](random *rand.Rand, all []T) T { return all[random.IntN(len(all))] }
