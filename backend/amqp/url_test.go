package amqp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill/backend/amqp"
)

func TestParseURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		urls    []string
		kind    string
		passive bool
	}{
		"amqp://localhost":                         {urls: []string{"amqp://localhost"}},
		"amqp://u:p@h1/vh?queue_type=classic":      {urls: []string{"amqp://u:p@h1/vh"}, kind: "classic"},
		"amqp://h/?passive=true&queue_type=quorum": {urls: []string{"amqp://h/"}, kind: "quorum", passive: true},
		"amqp://u:p@h1/vh?queue_type=classic, amqps://u:a,b@h2/vh?heartbeat=5": {
			urls: []string{"amqp://u:p@h1/vh", "amqps://u:a,b@h2/vh?heartbeat=5"}, kind: "classic",
		},
		"amqp://u:p%40ss@h:5673/a%2Fb?passive=0": {urls: []string{"amqp://u:p%40ss@h:5673/a%2Fb"}},
	} {
		config, err := amqp.ParseURLs(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want.urls, config.URLs); diff != "" || config.Type != want.kind || config.Passive != want.passive {
			t.Errorf("%q: %+v\n%s", text, config, diff)
		}
		if _, err := amqp.New(config); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseURLsNeverTellsThePassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "localhost", "secret", "http://u:secret@h", "amqp://u:secret@h:port", "amqp://u:secret%zz@h", "amqp://u:12/secret@h",
		"amqp://u:1?secret@h", "amqp://u:sec ret@h", "amqp://u:#secret@h", "amqp://us\x01er:secret@h", "amqp://u:secret@h1,h2/vh",
		"amqp://u:secret@h?quue_type=classic", "amqp://u:secret@h?queue_type=secret", "amqp://u:p@h?passive=secret",
		"amqp://u:secret@h?heartbeat=secret", "amqp://u:secret@h?connection_timeout=secret", "amqp://u:secret@h?%zz=secret",
		"amqp://h?queue_type=quorum,amqp://u:secret@h?queue_type=classic", "amqp://u:p@x:12/secret@h", "amqp://u:secret@h:99999",
		"amqp://u:secret@h/vh,u:secret@h2/vh",
	} {
		_, err := amqp.ParseURLs(text)
		if err == nil {
			t.Errorf("%q was read", text)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec ret") {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := amqp.New(amqp.Config{URLs: []string{text}}); err == nil {
			t.Errorf("%q was taken", text)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec ret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	good := []string{"amqp://127.0.0.1:1"}
	for name, config := range map[string]amqp.Config{
		"no URL":                    {},
		"our parameter in a URL":    {URLs: []string{"amqp://h?queue_type=classic"}},
		"unknown type":              {URLs: good, Type: "stream"},
		"long name":                 {URLs: good, Queue: strings.Repeat("q", 256)},
		"passive and strict":        {URLs: good, Passive: true, Strict: true},
		"negative expiration":       {URLs: good, Expiration: -1},
		"expiration below 1 ms":     {URLs: good, Expiration: 1},
		"negative dial timeout":     {URLs: good, DialTimeout: -1},
		"negative write timeout":    {URLs: good, WriteTimeout: -1},
		"negative confirm timeout":  {URLs: good, ConfirmTimeout: -1},
		"negative cap":              {URLs: good, AckCap: -1},
		"negative drain":            {URLs: good, Drain: -1},
		"heartbeat of half seconds": {URLs: good, Heartbeat: 1500 * time.Millisecond},
	} {
		if _, err := amqp.New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := amqp.New(amqp.Config{URLs: good}); err != nil {
		t.Error(err)
	}
}
