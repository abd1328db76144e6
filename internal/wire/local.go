package wire

import (
	"context"
	"errors"
	"log/slog"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
)

type inProcess struct{ logger *slog.Logger }

func openLocal(config BackendConfig) (Backend, error) {
	if config.URL != "local:" && config.URL != "local://" {
		return nil, errors.New("a local: URL has nothing after the colon")
	}
	return inProcess{config.Logger}, nil
}

func (inProcess) InProcess() bool                     { return true }
func (inProcess) Reach(context.Context) error         { return nil }
func (inProcess) Migrator() (waybill.Migrator, error) { return nil, nil }
func (inProcess) Close()                              {}
func (b inProcess) Queue(string) (Queue, error)       { return Local(b.logger) }

// Local returns a queue within the process.
func Local(logger *slog.Logger) (Queue, error) { return local.New(local.Config{Logger: logger}) }
