package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
)

// schemas are what a command migrates: the store's tables and, where the backend has
// tables of its own, the backend's.
type schemas struct {
	store   wire.Store
	outbox  waybill.Migrator
	backend wire.Backend     // nil: none is named
	queue   waybill.Migrator // nil: the backend has no tables
}

// reachedSchemas opens the schemas and makes sure that their servers answer. That of
// a backend without tables is not asked.
func (a *app) reachedSchemas(cmd *cobra.Command) (*schemas, error) {
	s, err := a.openSchemas(cmd)
	if err != nil {
		return nil, err
	}
	if err := s.store.Reach(cmd.Context()); err != nil {
		s.close()
		return nil, fmt.Errorf("store: %w", err)
	}
	if s.queue != nil {
		if err := reachBackend(cmd.Context(), s.backend); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (a *app) openSchemas(cmd *cobra.Command) (*schemas, error) {
	store, err := a.unreachedStore(cmd, 0)
	if err != nil {
		return nil, err
	}
	s := &schemas{store: store}
	if err := a.openMigrators(cmd, s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (a *app) openMigrators(cmd *cobra.Command, s *schemas) (err error) {
	if s.outbox, err = s.store.Migrator(); err != nil || a.backend == "" {
		return err
	}
	log, err := a.logger(cmd)
	if err != nil {
		return err
	}
	if s.backend, err = a.openBackend(cmd, wire.BackendConfig{Logger: log}); err != nil {
		return err
	}
	s.queue, err = s.backend.Migrator()
	return err
}

// all are the migrators in the order in which their steps are applied.
func (s *schemas) all() []waybill.Migrator {
	if s.queue == nil {
		return []waybill.Migrator{s.outbox}
	}
	return []waybill.Migrator{s.outbox, s.queue}
}

func (s *schemas) close() {
	if s.backend != nil {
		s.backend.Close()
	}
	s.store.Close()
}
