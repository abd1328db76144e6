package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/declare"
	"github.com/waybill-go/waybill/internal/wire"
)

// declarations are what a program declares: in Go, and in a file beside that.
type declarations struct {
	inGo    *waybill.Registry // without what the file declares
	sites   []waybill.Site    // whose receivers this process runs
	runners map[string]string // how those of the file are run, by key
}

// readInto declares what is in the file, and says how its receivers are run.
func (a *app) readInto(reg *waybill.Registry) (runners map[string]string, err error) {
	file, err := os.Open(a.receivers)
	if err != nil {
		return nil, fmt.Errorf("receivers: %w", err)
	}
	defer file.Close()
	var text strings.Builder
	if err := declare.Read(reg, a.receivers, io.TeeReader(file, &text), a.declared.sites...); err != nil {
		return nil, err
	}
	return declare.Runners([]byte(text.String())), nil
}

// catchHangups catches SIGHUP from now on: one that comes before the process works
// would else end it.
func catchHangups() (hangups <-chan os.Signal, stop func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	return caught, func() { signal.Stop(caught) }
}

// reloading has a process read its declarations anew at SIGHUP.
type reloading struct {
	app     *app
	hangups <-chan os.Signal
	log     *slog.Logger
	// follows says what of other declarations the process that runs cannot go by.
	follows func(next *waybill.Registry) error
}

// during reloads while run runs. While that drains it does not: what is taken then
// is nothing.
func (r *reloading) during(ctx context.Context, run func(ctx context.Context) error) error {
	reloads, stop := context.WithCancel(ctx)
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			select {
			case <-reloads.Done():
				return
			case <-r.hangups:
				r.reload()
			}
		}
	})
	defer loop.Wait()
	defer stop()
	return run(ctx)
}

// reload puts the file's declarations in the place of those in use, all of them or
// none. Nothing that it finds ends the process.
func (r *reloading) reload() {
	a := r.app
	if a.receivers == "" {
		r.log.Warn("SIGHUP: no file of declarations is named with --receivers, so there is nothing to read anew")
		return
	}
	next := a.declared.inGo.Clone()
	runners, err := a.readInto(next)
	if err == nil {
		err = r.follows(next)
	}
	was := a.registry.Clone()
	if err == nil {
		err = a.registry.Replace(next)
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			r.log.Error("declarations not read anew, the old ones stay", "error", line)
		}
		return
	}
	changes := compare(was, next, a.declared.runners, runners)
	a.declared.runners = runners
	changes.tell(r.log, a.receivers, len(next.Receivers()))
}

// redeclared is a store as it were with other declarations: for asking what would be
// refused at start.
type redeclared struct {
	wire.Store
	registry *waybill.Registry
}

func (s redeclared) Registry() *waybill.Registry { return s.registry }
