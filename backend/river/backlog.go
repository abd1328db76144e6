package river

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/waybill-go/waybill"
)

// backlogBound is how far jobs are counted. Counting is a walk along an index, and
// a queue that has grown by millions must not make it worse.
const backlogBound = 100_000

// Backlog counts jobs in one statement, by the database's clock. A count of
// 100,000 stands for that many or more. How many slots there are River does not
// tell. A job of a worker that died counts as running until Config.StuckAfter.
func (b *Backend) Backlog(ctx context.Context) (waybill.Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	c, err := b.database.backlog(ctx, b.queue)
	if err != nil {
		if missing, err := b.database.missing(ctx); err == nil && missing > 0 {
			return waybill.Backlog{}, b.unmigrated(missing)
		}
		return waybill.Backlog{}, fmt.Errorf("backlog of %s: %w", b.queue, err)
	}
	return waybill.Backlog{
		Ready:   waybill.Known(c.ready),
		Running: waybill.Known(c.running),
		Oldest:  waybill.Known(c.oldest),
	}, nil
}

func (p *postgres) backlog(ctx context.Context, queue string) (c counts, err error) {
	var seconds float64
	err = p.pool.QueryRow(ctx, fmt.Sprintf(`
SELECT (SELECT count(*) FROM (SELECT FROM %[1]s WHERE state = 'available' AND queue = $1 AND scheduled_at <= now() LIMIT $2) AS ready),
       (SELECT count(*) FROM (SELECT FROM %[1]s WHERE state = 'running' AND queue = $1 LIMIT $2) AS running),
       coalesce(extract(epoch FROM now() - (
           SELECT scheduled_at FROM %[1]s WHERE state = 'available' AND queue = $1 AND scheduled_at <= now()
           ORDER BY priority, scheduled_at, id LIMIT 1)), 0)::float8`, p.table("river_job")),
		queue, backlogBound).Scan(&c.ready, &c.running, &seconds)
	c.oldest = duration(seconds)
	return c, err
}

func (f *sqliteFile) backlog(ctx context.Context, queue string) (c counts, err error) {
	if _, err := os.Stat(f.path); err != nil {
		return c, err // to ask it would make the file
	}
	var seconds float64
	const due = `state = 'available' AND queue = ?1 AND scheduled_at <= datetime('now', 'subsec')`
	err = f.db.QueryRowContext(ctx, `
SELECT (SELECT count(*) FROM (SELECT 1 FROM river_job WHERE `+due+` LIMIT ?2)),
       (SELECT count(*) FROM (SELECT 1 FROM river_job WHERE state = 'running' AND queue = ?1 LIMIT ?2)),
       coalesce((SELECT unixepoch('now', 'subsec') - unixepoch(scheduled_at, 'subsec') FROM river_job WHERE `+due+`
                 ORDER BY priority, scheduled_at, id LIMIT 1), 0.0)`,
		queue, backlogBound).Scan(&c.ready, &c.running, &seconds)
	c.oldest = duration(seconds)
	return c, err
}

// duration of some seconds, which are never negative.
func duration(seconds float64) time.Duration {
	return time.Duration(max(seconds, 0) * float64(time.Second))
}
