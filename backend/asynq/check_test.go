package asynq_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/services"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	server := services.OwnRedis(t)
	admin := connect(t, server.URL)
	b := open(t, asynq.Config{Redis: admin, Lane: "mail"})
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, policy := range []string{"allkeys-lru", "volatile-lru", "noeviction"} {
		if err := admin.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		err := b.Check(t.Context())
		if refused := err != nil && strings.Contains(err.Error(), "its maxmemory-policy is "+policy); refused != (policy != "noeviction") {
			t.Errorf("check with %s: %v", policy, err)
		}
	}
	if err := admin.Set(t.Context(), "asynq:{waybill-mail}:pending", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "string") {
		t.Errorf("check with another's key: %v", err)
	}
	wrong := open(t, asynq.Config{Redis: connect(t, strings.Replace(server.URL, "default:", "default:x", 1))})
	if err := wrong.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("check with a wrong password: %v", err)
	}
}

// Managed servers hide their settings, in one place or in both.
func TestCheckWarnsWhereThePolicyCannotBeRead(t *testing.T) {
	t.Parallel()
	server := services.OwnRedis(t)
	for _, c := range []struct {
		user     string
		rules    []string
		warnings int
	}{
		{"reads-all", nil, 0},
		{"without-config", []string{"-config"}, 0},
		{"without-info", []string{"-info"}, 0},
		{"without-either", []string{"-info", "-config"}, 1},
	} {
		allow(t, server, c.user, c.rules...)
		log, lines := logtest.New()
		b := open(t, asynq.Config{Redis: connect(t, as(server, c.user)), Logger: log})
		if err := b.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", c.user, err)
		}
		lines.Want(t, c.warnings, "level=WARN", "cannot read the maxmemory-policy", "noeviction")
		lines.Want(t, c.warnings, "level=WARN")
	}
}

// dressed is a Redis that gives itself out for another version.
type dressed struct {
	redis.UniversalClient
	version string
}

func (d dressed) Info(ctx context.Context, section ...string) *redis.StringCmd {
	cmd := d.UniversalClient.Info(ctx, section...)
	cmd.SetVal(strings.ReplaceAll(cmd.Val(), "redis_version:", "redis_version:"+d.version+"\r\nof_old:"))
	return cmd
}

// Asynq's archive script needs a command of 6.2. Without it every task that cannot be
// settled stays where it is.
func TestCheckRefusesAnOldRedis(t *testing.T) {
	t.Parallel()
	client := connect(t, services.Redis(t))
	for version, fit := range map[string]bool{"5.0.14": false, "6.0.16": false, "6.2.0": true, "7.2.5": true} {
		b := open(t, asynq.Config{Redis: dressed{client, version}, Lane: services.Unique(t), Logger: slog.New(slog.DiscardHandler)})
		err := b.Check(t.Context())
		if refused := err != nil && strings.Contains(err.Error(), version+" is too old"); refused == fit {
			t.Errorf("redis %s: %v", version, err)
		}
	}
}
