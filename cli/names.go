package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// Texts are written as for the standalone binaries, bridge and worker. A team's own
// program is called otherwise and is both of them, and its texts say so.

// aWorker is the command of that name in an example or between quotes.
var aWorker = regexp.MustCompile("(?m)(^  |& |[\"'`])worker( --| &|[\"'`]|$)")

// renamed returns a text as a program of that root would say it.
func renamed(root *cobra.Command, text string) string {
	var names []string
	worker := false
	for _, cmd := range root.Commands() {
		names = append(names, regexp.QuoteMeta(cmd.Name()))
		worker = worker || cmd.Name() == "worker"
	}
	if !worker {
		return text // one of the two
	}
	// As it stands: what is replaced with may be any text.
	name := strings.ReplaceAll(root.Name(), "$", "$$")
	text = regexp.MustCompile(`\bbridge (`+strings.Join(names, "|")+`)\b`).ReplaceAllString(text, name+" $1")
	return aWorker.ReplaceAllString(text, "${1}"+name+" worker${2}")
}

// isRenamed marks a command whose help was renamed: a name may have bridge in it.
const isRenamed = "waybill-renamed"

// helpByName has the help of every command name the program that runs.
func helpByName(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.Annotations[isRenamed] == "" {
			cmd.Long, cmd.Example = renamed(cmd.Root(), cmd.Long), renamed(cmd.Root(), cmd.Example)
			if cmd.Annotations == nil {
				cmd.Annotations = map[string]string{}
			}
			cmd.Annotations[isRenamed] = "yes"
		}
		help(cmd, args)
	})
}
