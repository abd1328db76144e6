package demo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// Everything is removed, the last first, also after an interrupt and although a
// removal fails; what stays behind is named and hides no error.
func TestCleanup(t *testing.T) {
	t.Parallel()
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	before, down := errors.New("interrupted"), errors.New("the server is down")
	for _, failing := range []error{nil, down} {
		for _, earlier := range []error{nil, before} {
			var order []string
			var c cleanup
			c.closes(func() { order = append(order, "folder") })
			for _, what := range []string{"schema", "queues"} {
				c.removes(what, func(ctx context.Context) error {
					order = append(order, what)
					if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
						t.Errorf("%s: bounded %t, %v", what, bounded, ctx.Err())
					}
					return failing
				})
			}
			err := c.run(interrupted, earlier)
			if want := []string{"queues", "schema", "folder"}; !slices.Equal(order, want) {
				t.Errorf("removed %q, want %q", order, want)
			}
			if want := []string{"schema", "queues"}; !slices.Equal(c.made(), want) {
				t.Errorf("made %q, want %q", c.made(), want)
			}
			switch {
			case failing == nil && err != earlier:
				t.Errorf("error %v, want %v", err, earlier)
			case failing != nil && (!errors.Is(err, down) || errors.Is(err, before)):
				t.Errorf("error %v, want that of the removal", err)
			}
			if failing != nil && !strings.Contains(err.Error(), "schema of the demo's is left behind: the server is down") {
				t.Errorf("error %q names nothing", err)
			}
			if failing != nil && earlier != nil && !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("error %q hides the one before", err)
			}
		}
	}
}
