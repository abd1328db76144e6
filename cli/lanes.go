package cli

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/ops"
)

func lanesCommand(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "lanes",
		Short: "List the declared lanes, what they are owed, and which are paused",
		Long: `List the declared lanes, their receivers, how many deliveries each is owed, and
which of them are paused: until when, by whom and why. The hand-off lease, for how
long a row may wait in the queue, is shown where a lane is declared with one; other
lanes' rows wait under their receivers' own leases.

With --json, "handoff_lease_seconds" is null for a lane without one, "pause" is null
for a lane that goes on, and "until" and "left_seconds" are null for a pause that
lasts until somebody ends it.`,
		Example: `  bridge lanes --store postgres://app:secret@localhost:5432/app --receivers receivers.yaml
  bridge lanes --json | jq -r '.[] | select(.pause) | .lane'`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error { return a.lanes(cmd, asJSON) }),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) lanes(cmd *cobra.Command, asJSON bool) error {
	if err := a.declareFor(false); err != nil {
		return err
	}
	store, err := a.checkedStore(cmd, 0)
	if err != nil {
		return err
	}
	defer store.Close()
	lanes, err := ops.Lanes(cmd.Context(), store, a.registry)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), lanes)
	}
	return lanes.WriteText(cmd.OutOrStdout())
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
