package asynq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ErrURL is the whole of what is said about a URL that cannot be read: where the
// password ends is not known in one.
var ErrURL = errors.New("cannot read the redis URL; want redis://[user:password@]host[:port][/database], " +
	"or rediss:// for TLS, with special characters of the password percent-encoded")

// Options returns the options that a Backend wants of its client, for a redis://
// or rediss:// URL. The client is made with redis.NewUniversalClient. A parameter
// such as ?read_timeout=4s or ?pool_size=200 overrides what is set here.
func Options(rawURL string) (*redis.UniversalOptions, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Fragment != "" || (u.Scheme != "redis" && u.Scheme != "rediss") {
		return nil, ErrURL
	}
	parsed, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, ErrURL
	}
	return &redis.UniversalOptions{
		Addrs:      []string{parsed.Addr},
		DB:         parsed.DB,
		Username:   parsed.Username,
		Password:   parsed.Password,
		TLSConfig:  parsed.TLSConfig,
		ClientName: parsed.ClientName,
		Protocol:   parsed.Protocol,

		DialTimeout:           orDefault(parsed.DialTimeout, 2*time.Second),
		ReadTimeout:           orDefault(parsed.ReadTimeout, 2*time.Second),
		WriteTimeout:          orDefault(parsed.WriteTimeout, 2*time.Second),
		PoolTimeout:           orDefault(parsed.PoolTimeout, 2*time.Second),
		ConnMaxIdleTime:       orDefault(parsed.ConnMaxIdleTime, 5*time.Minute),
		PoolSize:              orDefault(parsed.PoolSize, 100),
		ContextTimeoutEnabled: true, // a deadline of Enqueue is one

		// A lost reply may be asked for again, because the script knows the
		// message by its id. But an outage has to be seen while it is short.
		MaxRetries:    orDefault(parsed.MaxRetries, 1),
		DialerRetries: 1,

		// Neither is of use here, and some proxies refuse them.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
}

func orDefault[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// LogRedis sends the go-redis library's own log lines to logger, at debug level.
// That log is one for the whole process and goes to standard error by default, so
// this is for main programs to call; a Backend leaves it alone.
func LogRedis(logger *slog.Logger) { redis.SetLogger(redisLog{logger}) }

type redisLog struct{ logger *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	if l.logger.Enabled(ctx, slog.LevelDebug) {
		l.logger.DebugContext(ctx, "redis client", "detail", fmt.Sprintf(format, args...))
	}
}
