// Package services gives tests the servers they run against.
//
// `make services` starts one PostgreSQL, one Redis and one RabbitMQ on
// loopback, and names them in WAYBILL_TEST_POSTGRES, WAYBILL_TEST_REDIS and
// WAYBILL_TEST_AMQP; `make test` does so by itself. Tests share those servers,
// and each has a part of its own: [Postgres] a database, [RabbitMQ] a virtual
// host, and on Redis, where Asynq knows no prefix, a lane name from [Unique].
// All of it is removed when the test ends. A variable that is not set fails
// the test: a test that did not run has shown nothing.
//
// A test that has to stop or kill a server starts a private one with
// [OwnRedis], [OwnPostgres] or [OwnRabbitMQ], and hurts nobody. [OwnPgBouncer] is a
// connection pooler before a PostgreSQL, in transaction mode.
package services

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience bounds each request to a server: ample on a busy machine, short of
// the time after which one wonders whether the tests hang.
const patience = 30 * time.Second

// leftover is the age from which a database or virtual host of a test that
// was killed before its cleanup is removed by the next one to come.
const leftover = 3 * time.Hour

const prefix = "waybill_test_"

func env(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf(`%s is not set: run eval "$(make -s services)" first, or make test`, name)
	}
	return value
}

// fresh makes a name that no other test has, and which tells when it was made.
func fresh() string { return madeAt(time.Now()) }

func madeAt(t time.Time) string {
	return prefix + strconv.FormatInt(t.Unix(), 36) + "_" + random(5)
}

// abandoned reports whether the name was made so long ago that its test
// cannot be running any more.
func abandoned(name string, now time.Time) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return false
	}
	made, _, ok := strings.Cut(rest, "_")
	if !ok {
		return false
	}
	seconds, err := strconv.ParseInt(made, 36, 64)
	return err == nil && now.Sub(time.Unix(seconds, 0)) > leftover
}

func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}
