// Package deploy_test keeps the files of this folder true to the binaries.
package deploy_test

import (
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/declare"
)

// launch is a process as a file of this folder starts it.
type launch struct {
	*testing.T
	argv  []string
	env   map[string]string
	flags *pflag.FlagSet // as argv sets them; nil until check
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// load reads every document of a YAML file.
func load[T any](t *testing.T, name string) (documents []T) {
	t.Helper()
	if err := yaml.Load([]byte(read(t, name)), &documents, yaml.WithAllDocuments()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return documents
}

// bracketed are the variables in the help of a flag.
var bracketed = regexp.MustCompile(`\[(\$[A-Z_, $]+)\]$`)

// command finds what argv runs, and its flags.
func (l *launch) command() (cmd *cobra.Command, rest []string) {
	l.Helper()
	if len(l.argv) == 0 {
		l.Fatal("nothing is run")
	}
	switch program := path.Base(l.argv[0]); program {
	case "bridge":
		cmd = cli.Bridge(waybill.NewRegistry())
	case "worker":
		cmd = cli.Worker(waybill.NewRegistry())
	default:
		l.Fatalf("%s is no program of ours", program)
	}
	found, rest, err := cmd.Find(l.argv[1:])
	if err != nil {
		l.Fatalf("%v: %v", l.argv, err)
	}
	return found, rest
}

// check holds a process to what its program knows: each flag and each variable, and
// values that the flags take.
func (l *launch) check() {
	l.Helper()
	cmd, rest := l.command()
	if err := cmd.ParseFlags(rest); err != nil {
		l.Errorf("%v: %v", l.argv, err)
	}
	if args := cmd.Flags().Args(); len(args) > 0 {
		l.Errorf("%v: %v is left over", l.argv, args)
	}
	l.flags = cmd.Flags()
	known := map[string]*pflag.Flag{}
	l.flags.VisitAll(func(flag *pflag.Flag) {
		for _, names := range bracketed.FindAllStringSubmatch(flag.Usage, -1) {
			for name := range strings.SplitSeq(names[1], ", ") {
				known[strings.TrimPrefix(name, "$")] = flag
			}
		}
	})
	for name, value := range l.env {
		flag := known[name]
		switch {
		case flag == nil:
			l.Errorf("%v knows no variable %s", l.argv, name)
		case flag.Changed: // the flag beats it
		case value != "":
			if err := flag.Value.Set(value); err != nil {
				l.Errorf("%s: %v", name, err)
			}
		}
	}
}

// value is what the process has for a flag.
func (l *launch) value(flag string) string {
	if found := l.flags.Lookup(flag); found != nil {
		return found.Value.String()
	}
	return ""
}

// stays reports whether the process runs until it is stopped.
func (l *launch) stays() bool { return l.flags.Lookup("drain") != nil && l.value("once") != "true" }

// checkGrace holds the supervisor's patience to the drain and ten seconds more.
func (l *launch) checkGrace(grace time.Duration) {
	l.Helper()
	drain, err := time.ParseDuration(l.value("drain"))
	if err != nil || grace != drain+10*time.Second {
		l.Errorf("%v: the grace is %s and the drain %s (%v), want ten seconds between them", l.argv, grace, drain, err)
	}
}

// checkLanes holds the lanes that are named to the receivers.
func (l *launch) checkLanes(reg *waybill.Registry) {
	l.Helper()
	lanes, err := l.flags.GetStringSlice("lane")
	if err != nil {
		l.Errorf("%v: %v", l.argv, err)
	}
	for _, lane := range lanes {
		if !slices.Contains(reg.Lanes(), lane) {
			l.Errorf("%v: nobody declares lane %s", l.argv, lane)
		}
	}
}

// adminPort is the port of the admin endpoint, "" without one.
func (l *launch) adminPort() string {
	addr := l.value("admin")
	if addr == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		l.Errorf("%v: %v", l.argv, err)
	}
	return port
}

// receivers declares those of a file.
func receivers(t *testing.T, name string) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	if err := declare.LoadFor(reg, name, waybill.SiteTask, waybill.SiteRelay); err != nil {
		t.Fatal(err)
	}
	return reg
}
