package metrics_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/metrics"
)

// full returns a collector with a sample of every metric there is.
func full(t *testing.T) *metrics.Collector {
	t.Helper()
	whole := waybill.Backlog{
		Ready: waybill.Known[int64](1), Running: waybill.Known[int64](1), Oldest: waybill.Known(time.Second), Consumers: waybill.Known[int64](1),
	}
	c := newCollector(t, metrics.Config{
		Registry: declare(t, twoReceivers), Store: newStore(), Relays: []string{"default", "mail"}, Worker: true,
		Queues: map[string]waybill.BacklogReader{"mail": queue(func(context.Context) (waybill.Backlog, error) { return whole, nil })},
	})
	for kind, cases := range movements {
		for _, test := range cases {
			test.seen.Kind = kind
			c.Observe(test.seen)
		}
	}
	return c
}

func TestNamesAndHelpAreAsPrometheusWantsThem(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(full(t))
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// The table in docs/operations.md has every metric, with its type and labels, and no
// other.
func TestTheDocsHaveEveryMetric(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(waybill_\\w+)` \\| (\\w+) \\| ([^|]*) \\| [^|]+ \\| [^|]+ \\|$").FindAllSubmatch(text, -1) {
		labels := strings.ReplaceAll(strings.TrimSpace(string(row[3])), "`", "")
		documented[string(row[1])] = fmt.Sprintf("%s of %s", row[2], labels)
	}
	if diff := cmp.Diff(registered(t), documented); diff != "" {
		t.Errorf("registered and documented metrics (-registered +documented):\n%s", diff)
	}
}

// registered returns type and labels of every metric that is described.
func registered(t *testing.T) map[string]string {
	t.Helper()
	c := full(t)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, family := range families {
		types[family.GetName()] = strings.ToLower(family.GetType().String())
	}
	descriptions := make(chan *prometheus.Desc, 1000)
	c.Describe(descriptions)
	close(descriptions)
	all := map[string]string{}
	for description := range descriptions {
		parts := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(description.String())
		if parts == nil {
			t.Fatalf("a description of another form: %s", description)
		}
		if types[parts[1]] == "" {
			t.Errorf("%s is described and has no sample", parts[1])
		}
		all[parts[1]] = fmt.Sprintf("%s of %s", types[parts[1]], strings.ReplaceAll(parts[2], ",", ", "))
	}
	return all
}
