package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
)

// app is what the commands of one program share.
type app struct {
	registry  *waybill.Registry
	store     string
	backend   string
	receivers string
	logLevel  string
	logFormat string
	wake      wakeFlags
	declared  declarations
}

// someBackends are what whoever names no backend is told to choose from.
const someBackends = "redis://user:password@host:6379/0, amqp://user:password@host:5672/vhost or river:"

// environment is the annotation of a flag that names its variables, in order of
// precedence.
const environment = "waybill-environment"

// fromEnv lets variables stand in for a flag, and says so in the help.
func fromEnv(flags *pflag.FlagSet, name string, variables ...string) {
	flag := flags.Lookup(name)
	flag.Usage += " [$" + strings.Join(variables, ", $") + "]"
	flag.Annotations = map[string][]string{environment: variables}
}

func (a *app) globalFlags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&a.store, "store", "", "store `URL`: postgres://… or sqlite:PATH")
	flags.StringVar(&a.backend, "backend", "", "backend `URL`: redis://…, rediss://…, amqp://…, amqps://…, river:, river+postgres://…, river+sqlite:PATH or local:")
	flags.Var(&single{value: &a.receivers}, "receivers", "YAML `file` that declares the receivers")
	flags.StringVar(&a.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&a.logFormat, "log-format", "auto", "text, json, or auto: text on a terminal")
	fromEnv(flags, "store", "WAYBILL_STORE", "DATABASE_URL")
	fromEnv(flags, "backend", "WAYBILL_BACKEND", "REDIS_URL")
	fromEnv(flags, "receivers", "WAYBILL_RECEIVERS")
	fromEnv(flags, "log-level", "WAYBILL_LOG_LEVEL")
	fromEnv(flags, "log-format", "WAYBILL_LOG_FORMAT")
}

// readEnvironment sets each flag that was not given from its variables, so that
// flags beat the environment and that beats the defaults.
func readEnvironment(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			return
		}
		for _, variable := range flag.Annotations[environment] {
			value := os.Getenv(variable)
			if value == "" {
				continue
			}
			// pflag's own error quotes the value.
			if err := flag.Value.Set(value); err != nil {
				errs = append(errs, usagef("%s in the environment is no value for --%s, which is a %s", variable, flag.Name, flag.Value.Type()))
			}
			flag.Changed = true
			return
		}
	})
	return errors.Join(errs...)
}

// source says where a flag's value came from, for an error about it.
func source(cmd *cobra.Command, name string) string {
	flag := cmd.Flags().Lookup(name)
	for _, variable := range flag.Annotations[environment] {
		if value := os.Getenv(variable); value != "" && value == flag.Value.String() {
			return variable
		}
	}
	return "--" + name
}

// declareFor declares the receivers of the file, if one is named. sites are those
// whose receivers this process runs. needed says that the command makes no sense
// without receivers.
func (a *app) declareFor(needed bool, sites ...waybill.Site) error {
	a.declared.sites = sites
	if a.receivers != "" {
		a.declared.inGo = a.registry.Clone()
		var err error
		if a.declared.runners, err = a.readInto(a.registry); err != nil {
			return &mistakes{err}
		}
	}
	if err := a.registry.Err(); err != nil {
		return &mistakes{err}
	}
	if needed && len(a.registry.Receivers()) == 0 {
		return usagef("no receivers are declared: name their file with --receivers or WAYBILL_RECEIVERS")
	}
	return nil
}

// openStore opens the store and makes sure that it answers.
func (a *app) openStore(cmd *cobra.Command, connections int) (wire.Store, error) {
	store, err := a.unreachedStore(cmd, connections)
	if err != nil {
		return nil, err
	}
	if err := cutShort(cmd.Context(), store.Reach(cmd.Context())); err != nil {
		store.Close()
		return nil, fmt.Errorf("store: %w", err)
	}
	return store, nil
}

func (a *app) unreachedStore(cmd *cobra.Command, connections int) (wire.Store, error) {
	if a.store == "" {
		return nil, usagef("no store: set --store or WAYBILL_STORE to postgres://user:password@host:5432/database or sqlite:waybill.db")
	}
	log, err := a.logger(cmd)
	if err != nil {
		return nil, err
	}
	store, err := wire.OpenStore(wire.StoreConfig{
		URL: a.store, Registry: a.registry, Name: cmd.Root().Name(), Connections: connections, Logger: log,
		WakeInterval: a.wake.every(), PollOnly: a.wake.pollOnly(),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source(cmd, "store"), err)
	}
	return store, nil
}

// checkedStore opens the store and makes sure that its schema is the one this
// release works with.
func (a *app) checkedStore(cmd *cobra.Command, connections int) (wire.Store, error) {
	store, err := a.openStore(cmd, connections)
	if err != nil {
		return nil, err
	}
	if err := cutShort(cmd.Context(), store.Check(cmd.Context())); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}
