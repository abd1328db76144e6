package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
)

// Bridge is the command bridge, over the receivers of the registry and of the
// declarations file that it is called with.
func Bridge(reg *waybill.Registry) *cobra.Command { return bridgeCommand(&app{registry: reg}) }

// Program is Bridge with the command worker in it: all that a team's own program
// needs. Its receivers are those of the registry and, beside them, those of a
// declarations file, if it is called with one. What the program is called is the
// returned command's Use; commands of its own can be added.
func Program(reg *waybill.Registry) *cobra.Command {
	a := &app{registry: reg}
	cmd := bridgeCommand(a)
	cmd.AddCommand(workerCommand(a))
	helpByName(cmd)
	return cmd
}

func bridgeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bridge",
		Short: "Bridge a transactional outbox to a task queue",
		Long: `Bridge a transactional outbox to a task queue.

An application records events, and who is owed them, in its own transactions.
"bridge relay" hands what is due to a task queue, and "worker" runs it there.`,
		Example: `  export WAYBILL_STORE=postgres://app:secret@localhost:5432/app
  export WAYBILL_BACKEND=redis://localhost:6379/0
  export WAYBILL_RECEIVERS=receivers.yaml
  bridge migrate
  bridge fire order.placed --payload '{"id":1}'
  bridge relay &
  worker &
  bridge status`,
	}
	a.prepare(cmd)
	cmd.AddCommand(migrateCommand(a), fireCommand(a), relayCommand(a), statusCommand(a), lanesCommand(a), pauseCommand(a), resumeCommand(a), healthCommand(), demoCommand(a), sizeCommand(a), simulateCommand(a), versionCommand())
	return cmd
}

// Worker is the command worker, over the receivers of the registry and of the
// declarations file that it is called with.
func Worker(reg *waybill.Registry) *cobra.Command {
	a := &app{registry: reg}
	cmd := workerCommand(a)
	a.prepare(cmd)
	cmd.Version = version()
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	return cmd
}

// prepare makes cmd the root of a program.
func (a *app) prepare(cmd *cobra.Command) {
	a.globalFlags(cmd)
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return readEnvironment(cmd) }
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  bridge version",
		Args:    cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", cmd.Root().Name(), version())
			return err
		}),
	}
}

// version is what the Go toolchain stamped on the binary.
func version() string {
	text, revision, changed := "(devel)", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			text = info.Main.Version
		}
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision":
				revision = " " + setting.Value[:min(len(setting.Value), 12)]
			case setting.Key == "vcs.modified" && setting.Value == "true":
				changed = " with changes"
			}
		}
	}
	return fmt.Sprintf("%s%s%s, %s, %s/%s", text, revision, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
