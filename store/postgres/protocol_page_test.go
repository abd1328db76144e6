package postgres

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updatePage = flag.Bool("update", false, "write the statements into docs/protocol.md")

const protocolPage = "../../docs/protocol.md"

// quoted are the statements that docs/protocol.md quotes, by the name that stands
// before each.
var quoted = map[string]string{
	"fire":            fireSQL,
	"claim":           claimOneSQL,
	"claim, lapsed":   claimLapsedSQL,
	"claim, eager":    claimFiredSQL,
	"extend":          extendSQL,
	"take":            takeSQL,
	"ack, succeeded":  ackSucceededSQL,
	"ack, all others": ackSQL,
	"give back":       giveBackSQL,
	"cancel":          cancelSQL,
	"reopen":          reopenSQL,
}

var statement = regexp.MustCompile("(?s)<!-- sql: ([^>]*) -->\n```sql\n(.*?)```\n")

// The page states the protocol, and this holds it to the code: a statement that
// changes has to change there too (-update does it).
func TestTheProtocolPageQuotesTheSQL(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	fresh := statement.ReplaceAllStringFunc(string(page), func(block string) string {
		parts := statement.FindStringSubmatch(block)
		name, on := parts[1], parts[2]
		seen[name]++
		text, ok := quoted[name]
		if !ok {
			t.Errorf("the page quotes %q, which is no statement of this test", name)
			return block
		}
		text = strings.Trim(text, "\n") + "\n"
		if diff := cmp.Diff(text, on); diff != "" && !*updatePage {
			t.Errorf("%s (-code +page):\n%s", name, diff)
		}
		return "<!-- sql: " + name + " -->\n```sql\n" + text + "```\n"
	})
	for name := range quoted {
		if seen[name] != 1 {
			t.Errorf("the page quotes %q %d times, want once", name, seen[name])
		}
	}
	if *updatePage {
		if err := os.WriteFile(protocolPage, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
