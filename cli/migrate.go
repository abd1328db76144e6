package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
)

func migrateCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the store's schema to what this release works with",
		Long: `Bring the store's schema to what this release works with.

Without a subcommand it is "migrate up". Any number of processes may run it at
the same time.`,
		Example: `  bridge migrate --store postgres://app:secret@localhost:5432/app
  bridge migrate status --store sqlite:waybill.db`,
		Args: cobra.NoArgs,
		RunE: running(a.migrateUp),
	}
	force := false
	down := &cobra.Command{
		Use:   "down",
		Short: "Take the last step back, with all that its tables hold",
		Long: `Take the last step back, with all that its tables hold.

While deliveries are owed this is refused, unless --force is given.`,
		Example: "  bridge migrate down --store sqlite:waybill.db",
		Args:    cobra.NoArgs,
		RunE:    running(func(cmd *cobra.Command, _ []string) error { return a.migrateDown(cmd, force) }),
	}
	down.Flags().BoolVar(&force, "force", false, "drop deliveries that are owed, too")
	cmd.AddCommand(
		&cobra.Command{
			Use:     "up",
			Short:   "Apply the steps that are missing",
			Example: "  bridge migrate up --store sqlite:waybill.db",
			Args:    cobra.NoArgs,
			RunE:    running(a.migrateUp),
		},
		down,
		&cobra.Command{
			Use:     "status",
			Short:   "Show which steps are applied",
			Example: "  bridge migrate status --store sqlite:waybill.db",
			Args:    cobra.NoArgs,
			RunE:    running(a.migrateStatus),
		},
		&cobra.Command{
			Use:     "print",
			Short:   "Print the SQL that makes the schema in an empty database",
			Example: "  bridge migrate print --store postgres://localhost/app >waybill.sql",
			Args:    cobra.NoArgs,
			RunE:    running(a.migratePrint),
		},
	)
	return cmd
}

// migrator opens the store for its migrator.
func (a *app) migrator(cmd *cobra.Command) (wire.Store, waybill.Migrator, error) {
	store, err := a.openStore(cmd, 0)
	if err != nil {
		return nil, nil, err
	}
	m, err := store.Migrator()
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	return store, m, nil
}

func (a *app) migrateUp(cmd *cobra.Command, _ []string) error {
	store, m, err := a.migrator(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	done, err := m.Up(cmd.Context())
	if err != nil {
		return err
	}
	return tell(cmd.OutOrStdout(), "applied", done)
}

func (a *app) migrateDown(cmd *cobra.Command, force bool) error {
	store, m, err := a.migrator(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	if !force {
		if err := refuseToLoseDebts(cmd.Context(), store, m); err != nil {
			return err
		}
	}
	done, err := m.Down(cmd.Context())
	if err != nil {
		return err
	}
	return tell(cmd.OutOrStdout(), "took back", done)
}

// refuseToLoseDebts asks for what is owed, where there is a schema to ask.
func refuseToLoseDebts(ctx context.Context, store wire.Store, m waybill.Migrator) error {
	steps, err := m.Status(ctx)
	if err != nil {
		return err
	}
	applied := 0
	for _, step := range steps {
		if !step.AppliedAt.IsZero() {
			applied++
		}
	}
	if applied == 0 {
		return nil
	}
	tallies, err := store.Tallies(ctx)
	if err != nil {
		return err
	}
	var owed int64
	for _, tally := range tallies {
		if tally.Status.Owed() {
			owed += tally.Rows
		}
	}
	if owed > 0 {
		return fmt.Errorf("%s still owed would be lost: let the relay and the workers settle what is owed, or add --force", plural(int(owed), "delivery", "deliveries"))
	}
	return nil
}

func tell(w io.Writer, what string, steps []waybill.Migration) error {
	if len(steps) == 0 {
		_, err := fmt.Fprintln(w, "nothing to do")
		return err
	}
	for _, step := range steps {
		if _, err := fmt.Fprintf(w, "%s %s\n", what, step.Name); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) migrateStatus(cmd *cobra.Command, _ []string) error {
	store, m, err := a.migrator(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	steps, err := m.Status(cmd.Context())
	if err != nil {
		return err
	}
	for _, step := range steps {
		at := "not applied"
		if !step.AppliedAt.IsZero() {
			at = "applied " + step.AppliedAt.UTC().Format(time.RFC3339)
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-32s  %s\n", step.Name, at); err != nil {
			return err
		}
	}
	return nil
}

// migratePrint needs the URL for its scheme only: no server has to answer.
func (a *app) migratePrint(cmd *cobra.Command, _ []string) error {
	store, err := a.unreachedStore(cmd, 0)
	if err != nil {
		return err
	}
	defer store.Close()
	m, err := store.Migrator()
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), m.SQL())
	return err
}
