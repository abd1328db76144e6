package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/services"
)

// shop is the application in testapp with its database, a Redis that can be
// killed, and the destination of its letters.
type shop struct {
	*database
	redis *services.Server
	sink  *sink
	lease time.Duration
}

// newShop makes an empty one, where each success of a delivery is noted by the
// database itself, whoever brings it about.
func newShop(t *testing.T, lease time.Duration, answer func(*request) int) *shop {
	t.Helper()
	s := &shop{database: newDatabase(t), redis: services.OwnRedis(t), sink: newSink(t, answer), lease: lease}
	s.migrate()
	s.exec(`CREATE SCHEMA app;
		CREATE TABLE app.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, placed_at timestamptz NOT NULL);
		CREATE TABLE app.ledger (delivery_id bigint NOT NULL, order_id bigint NOT NULL);
		CREATE TABLE app.success (delivery_id bigint NOT NULL, claimed_by text NOT NULL);
		CREATE FUNCTION app.note_success() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO app.success VALUES (NEW.id, NEW.claimed_by); RETURN NULL;
		END $$;
		CREATE TRIGGER success AFTER UPDATE ON waybill.delivery FOR EACH ROW
			WHEN (NEW.status = 'succeeded') EXECUTE FUNCTION app.note_success();`)
	return s
}

// args are those of a process of the application.
func (s *shop) args(name string, more ...string) []string {
	return append([]string{name, "-postgres", s.url, "-redis", s.redis.URL, "-sink", s.sink.URL, "-lease", s.lease.String()}, more...)
}

// succeeded is how many successes there were.
func (s *shop) succeeded() int { return s.count(`SELECT count(*) FROM app.success`) }

// allSucceeded reports whether every one of n deliveries is there and settled.
func (s *shop) allSucceeded(n int) (bool, string) {
	settled := s.count(`SELECT count(*) FROM waybill.delivery WHERE status NOT IN ('pending', 'claimed', 'failed')`)
	if settled == n {
		return true, ""
	}
	return false, s.statuses()
}

// refuseEveryTenth is a sink's answer that makes every tenth delivery fail once.
func refuseEveryTenth(r *request) int {
	if id, _ := strconv.Atoi(r.id()); id%10 == 0 && r.header.Get("Waybill-Attempt") == "1" {
		return 500
	}
	return 200
}

// checkBooks says what has to be true when everything is settled, whatever went
// wrong on the way there.
func (s *shop) checkBooks(orders int) {
	s.t.Helper()
	if got, want := s.statuses(), fmt.Sprintf("succeeded %d", 2*orders); got != want {
		s.t.Errorf("deliveries: %s; want %s", got, want)
	}
	if n := s.count(`SELECT count(*) FROM app.orders`); n != orders {
		s.t.Errorf("%d orders, want %d", n, orders)
	}
	s.none("an order without its event, or the other way round",
		`SELECT o.id AS ordered, e.id AS event FROM app.orders o FULL JOIN waybill.event e ON (e.payload->>'id')::bigint = o.id
		  WHERE o.id IS NULL OR e.id IS NULL`)
	s.none("a delivery that did not succeed exactly once",
		`SELECT d.id, d.receiver, count(n.delivery_id) FROM waybill.delivery d LEFT JOIN app.success n ON n.delivery_id = d.id
		  GROUP BY d.id HAVING count(n.delivery_id) <> 1`)
	s.none("a delivery that was not booked exactly once",
		`SELECT d.id, count(l.delivery_id) FROM waybill.delivery d LEFT JOIN app.ledger l ON l.delivery_id = d.id
		  WHERE d.receiver = 'ledger.book' GROUP BY d.id HAVING count(l.delivery_id) <> 1`)
	s.none("a line of the ledger for the wrong order, or for no delivery",
		`SELECT l.delivery_id, l.order_id FROM app.ledger l LEFT JOIN waybill.delivery d ON d.id = l.delivery_id AND d.receiver = 'ledger.book'
		   LEFT JOIN waybill.event e ON e.id = d.event_id WHERE (e.payload->>'id')::bigint IS DISTINCT FROM l.order_id`)
	s.none("a delivery with another number of attempts than answers and commits",
		`SELECT id, receiver, attempts, starts FROM waybill.delivery
		  WHERE attempts <> CASE WHEN receiver = 'mail.post' AND id % 10 = 0 THEN 2 ELSE 1 END OR starts < attempts`)
}

// checkLetters says that every letter was accepted by its destination, and how
// many it got more than once: at least once is what was promised.
func (s *shop) checkLetters(orders int) (repeated int) {
	s.t.Helper()
	accepted := map[string]int{}
	for _, r := range s.sink.received() {
		if refuseEveryTenth(r) == 200 {
			accepted[r.id()]++
		}
	}
	if len(accepted) != orders {
		s.t.Errorf("the destination accepted %d letters, want %d", len(accepted), orders)
	}
	for _, n := range accepted {
		repeated += n - 1
	}
	return repeated
}
