package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/admin"
)

func healthCommand() *cobra.Command {
	var (
		addr    string
		ready   bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a relay or worker whether it is well",
		Long: `Ask a relay or worker whether it is well, at the address of its --admin.

It is live while its loops move, also while they wait out an outage: what is not
live has to be restarted. It is ready, with --ready, while the store and the
backend answer and the schema is the one that it works with.

The answer is one line and the exit code: 0 if it is well, 1 if it is not. Nothing
else is needed, so that it serves as a probe in a container without a shell. A
host that stands for all addresses, as in :9090, is asked on loopback.`,
		Example: `  bridge health --admin 127.0.0.1:9090
  bridge health --admin 127.0.0.1:9090 --ready`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error {
			switch {
			case addr == "":
				return usagef("no address: set --admin or WAYBILL_ADMIN to that of the relay or worker")
			case timeout <= 0:
				return usagef("--timeout %s: must be longer than nothing", timeout)
			}
			if err := checkAddress(addr); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := admin.Ask(ctx, addr, ready); err != nil {
				return err
			}
			text := "live"
			if ready {
				text = "ready"
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&addr, "admin", "", "`host:port` where it listens")
	flags.BoolVar(&ready, "ready", false, "ask whether it is ready, and not only live")
	flags.DurationVar(&timeout, "timeout", 5*time.Second, "longest wait for the answer")
	fromEnv(flags, "admin", "WAYBILL_ADMIN")
	return cmd
}
