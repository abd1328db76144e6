package asynq

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

// publication is how long what a server of Asynq publishes of itself is kept. It
// does so twice in that time.
const publication = 10 * time.Second

// servers is what the servers of a queue publish of themselves.
type servers struct {
	count int
	slots int64
	busy  int64 // slots that were taken when it was published
}

// published asks for the servers of this queue, and for how many there are of any. It
// returns nil if Redis refuses to tell, and an error if it does not answer.
func (b *Backend) published(ctx context.Context) (found *servers, all int, err error) {
	client := &inspectorClient{UniversalClient: b.config.Redis, ctx: ctx}
	infos, err := asynq.NewInspectorFromRedisClient(client).Servers()
	if err = errors.Join(client.err, err); err != nil {
		return nil, 0, unanswered(err)
	}
	found = new(servers)
	for _, info := range infos {
		if _, ours := info.Queues[b.queue]; !ours {
			continue
		}
		found.count++
		found.slots += int64(info.Concurrency)
		for _, worker := range info.ActiveWorkers {
			if worker.Queue == b.queue {
				found.busy++
			}
		}
	}
	return found, len(infos), nil
}

// sight is how far Redis can be believed about servers.
type sight struct {
	present int           // how many servers are there for the queue, or may be, as far as is known
	sure    bool          // none that lives is missing among those
	up      time.Duration // for how long Redis has run, 0 if it does not say
}

// consumers returns the slots of the servers, unless Redis may have forgotten some.
// A server stays subscribed whatever is deleted, so fewer are published than are
// present after a flush; and a Redis that has just started knows neither.
func (s *servers) consumers(seen sight) (slots waybill.Reading[int64]) {
	if s == nil || s.count < seen.present || seen.up > 0 && seen.up < publication {
		return slots
	}
	if s.count == 0 && (!seen.sure || seen.up == 0) {
		return slots
	}
	return waybill.Known(s.slots)
}

// running returns how many messages are out, unless that contradicts the servers.
func (s *servers) running(active int64, slots waybill.Reading[int64]) (running waybill.Reading[int64]) {
	limit, ok := slots.Value()
	if !ok || active > limit || active == 0 && s.busy > 0 {
		return running
	}
	return waybill.Known(active)
}

// presence is the channel that a server of this queue listens to, beside Asynq's
// own, for nobody to speak on: it is there to be counted. Channels are shared by
// the databases of a Redis, unlike keys.
func (b *Backend) presence() string { return everyServer + ":" + b.queue + b.database() }

// everyServer is the channel that every server of Asynq listens to, of whichever queue
// and database.
const everyServer = "asynq:cancel"

// database is how a presence ends.
func (b *Backend) database() string {
	database := 0
	if client, ok := b.config.Redis.(*redis.Client); ok {
		database = client.Options().DB
	}
	return ":" + strconv.Itoa(database)
}

// look says how far Redis can be believed. In a cluster each node counts its own
// subscribers only, and where subscriptions are refused there are none to count.
func (b *Backend) look(ctx context.Context, subscribed *redis.MapStringIntCmd, server *redis.StringCmd, published int) sight {
	seen := sight{up: uptime(server.Val())}
	if _, ok := b.config.Redis.(*redis.ClusterClient); ok || subscribed.Err() != nil {
		return seen
	}
	seen.present = int(subscribed.Val()[b.presence()])
	if seen.present > 0 {
		seen.sure = true
		return seen
	}
	if listening := int(subscribed.Val()[everyServer]); listening > published {
		seen.present = b.strangers(ctx, listening, published)
	}
	seen.sure = seen.present > 0 || b.maySubscribe(ctx)
	return seen
}

// strangers returns how many servers are there that no Consume runs, beyond those that
// are published in this database. A team's own servers (see Handler) listen to no
// presence, so that any of these may be one of the queue that Redis forgot. It may
// as well be one of another database, which cannot be seen from here.
func (b *Backend) strangers(ctx context.Context, listening, published int) int {
	channels, err := b.config.Redis.PubSubChannels(ctx, everyServer+":*").Result()
	if err != nil {
		return listening
	}
	counts, err := b.config.Redis.PubSubNumSub(ctx, channels...).Result()
	if err != nil {
		return listening
	}
	for channel, n := range counts {
		if strings.HasSuffix(channel, probing) {
			continue
		}
		listening -= int(n)
		if strings.HasSuffix(channel, b.database()) {
			published -= int(n)
		}
	}
	return max(listening-max(published, 0), 0)
}

// probing is how a channel ends that is there for a moment, and no server's.
const probing = ":probe"

// maySubscribe finds out whether Redis grants subscriptions, on a channel beside the
// one that is counted.
func (b *Backend) maySubscribe(ctx context.Context) bool {
	subscription := b.config.Redis.Subscribe(ctx, b.presence()+probing)
	defer subscription.Close()
	wait := handshakeTimeout
	if deadline, ok := ctx.Deadline(); ok { // which the subscription itself ignores
		wait = max(min(wait, time.Until(deadline)), time.Millisecond)
	}
	_, err := subscription.ReceiveTimeout(ctx, wait)
	return err == nil
}

// uptime returns how long Redis has run, and 0 if it does not say.
func uptime(info string) time.Duration {
	seconds, err := strconv.Atoi(infoFields(info)["uptime_in_seconds"])
	if err != nil {
		return 0
	}
	return max(time.Duration(seconds)*time.Second, 1)
}

// inspectorClient is the Redis client of an Inspector, with two of its traps closed:
// it takes no context, and passes over what it could not read as if it were not there.
type inspectorClient struct {
	redis.UniversalClient
	ctx context.Context // of the one call that this client is made for
	err error
}

func (c *inspectorClient) EvalSha(_ context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.EvalSha(c.ctx, sha, keys, args...)
	if !redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") { // else it is sent again, with its source
		c.note(cmd.Err())
	}
	return cmd
}

func (c *inspectorClient) Eval(_ context.Context, script string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.Eval(c.ctx, script, keys, args...)
	c.note(cmd.Err())
	return cmd
}

func (c *inspectorClient) Get(_ context.Context, key string) *redis.StringCmd {
	cmd := c.UniversalClient.Get(c.ctx, key)
	if !errors.Is(cmd.Err(), redis.Nil) { // else the server is gone by now
		c.note(cmd.Err())
	}
	return cmd
}

func (c *inspectorClient) HVals(_ context.Context, key string) *redis.StringSliceCmd {
	cmd := c.UniversalClient.HVals(c.ctx, key)
	c.note(cmd.Err())
	return cmd
}

// note keeps the first error.
func (c *inspectorClient) note(err error) {
	if c.err == nil {
		c.err = err
	}
}
