package admin_test

import (
	"io"
	"log/slog"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/internal/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a server on a free port, with what a test does not say itself.
func start(t *testing.T, config admin.Config) *admin.Server {
	t.Helper()
	config.Addr = "127.0.0.1:0"
	if config.Live == nil {
		config.Live = func() error { return nil }
	}
	if config.Metrics == nil {
		config.Metrics = http.NotFoundHandler()
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	server, err := admin.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// get returns status and body of a path.
func get(t *testing.T, server *admin.Server, path string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + server.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
