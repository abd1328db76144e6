package cli_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	t.Parallel()
	for _, root := range []*cobra.Command{cli.Bridge(waybill.NewRegistry()), cli.Worker(waybill.NewRegistry())} {
		seen := 0
		for _, path := range paths(root) {
			seen++
			fresh := cli.Bridge(waybill.NewRegistry())
			if root.Name() == "worker" {
				fresh = cli.Worker(waybill.NewRegistry())
			}
			got := execute(t.Context(), fresh, "", append(path, "--help")...)
			command := strings.Join(append([]string{root.Name()}, path...), " ")
			if got.code != 0 || got.err != "" {
				t.Errorf("%s --help: exit code %d, %s", command, got.code, got.err)
			}
			if !strings.Contains(got.out, "Examples:\n  ") || !strings.Contains(got.out, "--store URL") {
				t.Errorf("%s --help lacks an example or the global flags:\n%s", command, got.out)
			}
		}
		if want := map[string]int{"bridge": 17, "worker": 1}[root.Name()]; seen != want {
			t.Errorf("%s has %d commands, want %d", root.Name(), seen, want)
		}
	}
}

// paths returns the arguments that lead to each command, the root's first.
func paths(cmd *cobra.Command) [][]string {
	all := [][]string{nil}
	for _, sub := range cmd.Commands() {
		for _, path := range paths(sub) {
			all = append(all, append([]string{sub.Name()}, path...))
		}
	}
	return all
}

func TestHelpNamesTheEnvironment(t *testing.T) {
	t.Parallel()
	help := succeeds(t, "relay", "--help").out
	for _, want := range []string{"[$WAYBILL_STORE, $DATABASE_URL]", "[$WAYBILL_BACKEND, $REDIS_URL]", "[$WAYBILL_RECEIVERS]", "--once", "--limit", "--passes", "--batch-size", "--worker-id"} {
		if !strings.Contains(help, want) {
			t.Errorf("bridge relay --help lacks %q", want)
		}
	}
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	if got := succeeds(t, "version").out; !strings.HasPrefix(got, "bridge ") || strings.Count(got, "\n") != 1 {
		t.Errorf("bridge version = %q", got)
	}
	got := execute(t.Context(), cli.Worker(waybill.NewRegistry()), "", "--version")
	if got.code != 0 || !strings.HasPrefix(got.out, "worker ") || strings.Count(got.out, "\n") != 1 {
		t.Errorf("worker --version = %+v", got)
	}
	if got := succeeds(t, "completion", "bash").out; !strings.Contains(got, "__start_bridge") {
		t.Error("bridge completion bash prints no completion")
	}
	if got := succeeds(t).out; !strings.Contains(got, "Available Commands:") {
		t.Errorf("bridge alone prints %q", got)
	}
}
