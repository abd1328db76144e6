package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/ops"
)

func statusCommand(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is owed, and what became of the rest",
		Long: `Show what is owed, and what became of the rest, by receiver.

Owed are the deliveries that are pending, claimed, or failed and waiting out
their backoff. Receivers and events that are owed and that nobody is declared
for are named at the end. oldest_owed_seconds is 0 when nothing is owed.`,
		Example: `  bridge status --store postgres://app:secret@localhost:5432/app --receivers receivers.yaml
  bridge status --json | jq .owed`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error { return a.status(cmd, asJSON) }),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) status(cmd *cobra.Command, asJSON bool) error {
	if err := a.declareFor(false); err != nil {
		return err
	}
	store, err := a.checkedStore(cmd, 0)
	if err != nil {
		return err
	}
	defer store.Close()
	report, err := ops.Status(cmd.Context(), store, a.registry)
	if err != nil {
		return err
	}
	if !asJSON {
		return report.WriteText(cmd.OutOrStdout())
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}
