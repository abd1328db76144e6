package cli

import (
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
	"github.com/waybill-go/waybill/ops"
)

func pauseCommand(a *app) *cobra.Command {
	var length time.Duration
	var reason string
	cmd := &cobra.Command{
		Use:   "pause LANE",
		Short: "Stop a lane: nothing of it is claimed or begun",
		Long: `Stop a lane: no relay claims its deliveries, and no worker begins one.

Relays know it within their poll, and a worker at its next take: it gives back what
it would have begun, with no start counted. What runs already runs to its end. The
pause is kept in the database and ends by itself after --for, by the database's
clock; without --for it lasts until "bridge resume".

On a lane that is paused already, the end is set anew, be it earlier or later.`,
		Example: `  bridge pause mail --for 10m --reason 'provider is in maintenance'
  bridge pause crm --reason 'wrong token, see ticket 4711'`,
		Args: cobra.ExactArgs(1),
		RunE: running(func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("for") && length <= 0:
				return usagef("--for %s: must be longer than nothing", length)
			case strings.TrimSpace(reason) == "":
				return usagef("--reason is missing: say why, to whoever finds the lane paused")
			}
			return a.pause(cmd, waybill.PauseRequest{Lane: args[0], For: length, By: operator(), Reason: reason, Exact: true})
		}),
	}
	cmd.Flags().DurationVar(&length, "for", 0, "how long (default until it is resumed)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever finds the lane paused; required")
	return cmd
}

func resumeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume LANE",
		Short: "End the pause of a lane, whoever set it",
		Long: `End the pause of a lane, be it an operator's or a deferral's. Relays go on within
their poll. A lane that was not paused stays as it is, which is no failure.`,
		Example: "  bridge resume mail",
		Args:    cobra.ExactArgs(1),
		RunE:    running(func(cmd *cobra.Command, args []string) error { return a.resume(cmd, args[0]) }),
	}
}

func (a *app) pause(cmd *cobra.Command, request waybill.PauseRequest) error {
	store, err := a.storeOfLane(cmd, request.Lane)
	if err != nil {
		return err
	}
	defer store.Close()
	pause, err := store.PauseLane(cmd.Context(), request)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "lane %s %s\n", pause.Lane, ops.PauseOf(pause))
	return err
}

func (a *app) resume(cmd *cobra.Command, lane string) error {
	store, err := a.storeOfLane(cmd, lane)
	if err != nil {
		return err
	}
	defer store.Close()
	ended, err := store.ResumeLane(cmd.Context(), lane)
	if err != nil {
		return err
	}
	what := "goes on"
	if !ended {
		what = "was not paused"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "lane %s %s\n", lane, what)
	return err
}

// storeOfLane opens the store, once it is clear that the lane is declared: a pause of
// a misspelt one would stop nothing, and look as if it did.
func (a *app) storeOfLane(cmd *cobra.Command, lane string) (wire.Store, error) {
	if err := a.declareFor(true); err != nil {
		return nil, err
	}
	if err := a.registry.CheckLane(lane); err != nil {
		return nil, err
	}
	return a.checkedStore(cmd, 0)
}

// operator is who runs the command, as far as the machine knows.
func operator() string {
	name, host := "somebody", "localhost"
	if current, err := user.Current(); err == nil && current.Username != "" {
		name = current.Username
	}
	if known, err := os.Hostname(); err == nil && known != "" {
		host = known
	}
	return name + "@" + host
}
