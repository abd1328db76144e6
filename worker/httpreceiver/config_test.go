package httpreceiver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/worker/httpreceiver"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config httpreceiver.Config
		want   string
	}{
		{"no url", httpreceiver.Config{}, "url is empty"},
		{"no scheme", httpreceiver.Config{URL: "sink.example/hook"}, `scheme ""`},
		{"another scheme", httpreceiver.Config{URL: "ftp://ann:topsecret@sink.example"}, `scheme "ftp"`},
		{"no host", httpreceiver.Config{URL: "http:///hook"}, "no host"},
		{"a password that breaks the url", httpreceiver.Config{URL: "http://ann:top%secret@sink.example"}, "is not a URL"},
		{"a port that is none", httpreceiver.Config{URL: "http://ann:topsecret@sink.example:http"}, "is not a URL"},
		{"a method without a body", httpreceiver.Config{URL: "http://sink.example", Method: "GET"}, `method "GET" is none of POST, PUT, PATCH`},
		{"a negative timeout", httpreceiver.Config{URL: "http://sink.example", Timeout: -time.Second}, "negative"},
		{"an own header", httpreceiver.Config{URL: "http://sink.example", Headers: map[string]string{"waybill-event": "x"}}, "Waybill-Event is set by the delivery"},
		{"the key", httpreceiver.Config{URL: "http://sink.example", Headers: map[string]string{"Idempotency-Key": "1"}}, "Idempotency-Key"},
		{"a header's name", httpreceiver.Config{URL: "http://sink.example", Headers: map[string]string{"X Y": "1"}}, `"X Y" is not`},
		{"a header's value", httpreceiver.Config{URL: "http://sink.example", Headers: map[string]string{"X-Key": "topsecret\r\nEvil: 1"}}, "X-Key: its value"},
		{"a header twice", httpreceiver.Config{URL: "http://sink.example", Headers: map[string]string{"x-key": "1", "X-Key": "2"}}, "configured twice"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := httpreceiver.New(test.config)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("New: %v, want %q in the error", err, test.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error %q holds a secret", err)
			}
		})
	}
}
