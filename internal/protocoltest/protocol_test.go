package protocoltest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/store/sqlite"
)

// given are the flags of the command line, which beat what is set here.
var given = map[string]bool{}

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.steps": stepsOnAverage, "rapid.nofailfile": "true"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	goleak.VerifyTestMain(m)
}

// One after the other: how many checks there are is a flag of the process.

func TestProtocolOnSQLite(t *testing.T) {
	checkProtocol(t, openSQLite(t, sqlite.Memory), checksOnSQLite)
}

func TestProtocolOnPostgres(t *testing.T) {
	checkProtocol(t, openPostgres(t), checksOnPostgres)
}
