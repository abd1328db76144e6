package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
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
the same time. With a backend that has tables of its own, which is River, those are
brought up to date too.`,
		Example: `  bridge migrate --store postgres://app:secret@localhost:5432/app
  bridge migrate --store postgres://app:secret@localhost:5432/app --backend river:
  bridge migrate status --store sqlite:waybill.db`,
		Args: cobra.NoArgs,
		RunE: running(a.migrateUp),
	}
	force, queue := false, false
	down := &cobra.Command{
		Use:   "down",
		Short: "Take the last step back, with all that its tables hold",
		Long: `Take the last step back, with all that its tables hold.

Where that would drop deliveries that are owed it is refused, unless --force is
given. It is the store's last step; a backend's tables stay as they are, and with
--queue it is their last step instead. They hold messages and no debts: what they lose is handed off again.`,
		Example: `  bridge migrate down --store sqlite:waybill.db
  bridge migrate down --store postgres://localhost/app --backend river: --queue`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error { return a.migrateDown(cmd, force, queue) }),
	}
	down.Flags().BoolVar(&force, "force", false, "drop deliveries that are owed, too")
	down.Flags().BoolVar(&queue, "queue", false, "take back the last step of the backend's tables instead")
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

func (a *app) migrateUp(cmd *cobra.Command, _ []string) error {
	s, err := a.reachedSchemas(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	applied := 0
	for _, m := range s.all() {
		steps, err := m.Up(cmd.Context())
		if len(steps) > 0 {
			err = errors.Join(err, tell(cmd.OutOrStdout(), "applied", steps))
		}
		if err != nil {
			return err
		}
		applied += len(steps)
	}
	if applied == 0 {
		return tell(cmd.OutOrStdout(), "applied", nil)
	}
	return nil
}

func (a *app) migrateDown(cmd *cobra.Command, force, queue bool) error {
	s, err := a.reachedSchemas(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	m := s.outbox
	switch {
	case queue && s.queue == nil:
		return usagef("--queue: no backend with tables of its own is named: set --backend or WAYBILL_BACKEND to river: or river+postgres://…")
	case queue: // it holds no debts
		m = s.queue
	case !force:
		if err := refuseToLoseDebts(cmd.Context(), s.store, m); err != nil {
			return err
		}
	}
	done, err := m.Down(cmd.Context())
	if err != nil {
		return err
	}
	return tell(cmd.OutOrStdout(), "took back", done)
}

// refuseToLoseDebts asks for what is owed, where the step to be taken back is the one
// that holds it.
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
	if applied != 1 { // the later steps hold no debts
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
	s, err := a.reachedSchemas(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, m := range s.all() {
		steps, err := m.Status(cmd.Context())
		if err != nil {
			return err
		}
		for _, step := range steps {
			at := "not applied"
			if !step.AppliedAt.IsZero() {
				at = "applied " + step.AppliedAt.UTC().Format(time.RFC3339)
			}
			fmt.Fprintf(table, "%s\t%s\n", step.Name, at)
		}
	}
	return table.Flush()
}

// migratePrint needs the URLs for their schemes only: no server has to answer.
func (a *app) migratePrint(cmd *cobra.Command, _ []string) error {
	s, err := a.openSchemas(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	for _, m := range s.all() {
		if _, err := fmt.Fprint(cmd.OutOrStdout(), m.SQL()); err != nil {
			return err
		}
	}
	return nil
}
