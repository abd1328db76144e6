package asynq

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Check reports whether Redis answers and is fit to hold the queue. What it may not
// read (managed servers hide their settings) it does not judge; it logs a warning
// when it cannot tell whether messages may be evicted.
func (b *Backend) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	if err := b.config.Redis.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis does not answer: %w; is it running, and is its address right?", err)
	}
	if err := checkVersion(b.info(ctx, "server")["redis_version"]); err != nil {
		return err
	}
	switch policy := b.evictionPolicy(ctx); policy {
	case "noeviction":
	case "":
		b.log.WarnContext(ctx, "cannot read the maxmemory-policy of redis; make sure that it is noeviction, or queued messages may be evicted")
	default:
		return fmt.Errorf("redis may evict queued messages: its maxmemory-policy is %s; run CONFIG SET maxmemory-policy noeviction", policy)
	}
	key := b.key("pending")
	if kind, err := b.config.Redis.Type(ctx, key).Result(); err == nil && kind != "none" && kind != "list" {
		return fmt.Errorf("redis key %s is a %s, not Asynq's list: delete it, or use another database or queue", key, kind)
	}
	return nil
}

// info returns the fields of one section, none if it cannot be read.
func (b *Backend) info(ctx context.Context, section string) map[string]string {
	return infoFields(b.config.Redis.Info(ctx, section).Val())
}

func infoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

func (b *Backend) evictionPolicy(ctx context.Context) string {
	if policy := b.info(ctx, "memory")["maxmemory_policy"]; policy != "" {
		return policy
	}
	settings, err := b.config.Redis.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil {
		return ""
	}
	return settings["maxmemory-policy"]
}

// checkVersion refuses a Redis that lacks the commands Asynq's scripts use.
func checkVersion(version string) error {
	majorText, rest, _ := strings.Cut(version, ".")
	minorText, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(majorText)
	minor, err2 := strconv.Atoi(minorText)
	if err != nil || err2 != nil {
		return nil // unreadable
	}
	if major < 6 || major == 6 && minor < 2 {
		return fmt.Errorf("redis %s is too old: Asynq needs 6.2 or later", version)
	}
	return nil
}
