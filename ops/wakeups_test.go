package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/ops"
)

// ear is a store that was asked whether wake-ups arrive.
type ear struct {
	rows
	err error
}

func (e ear) CheckListen(context.Context) error { return e.err }

// Whether relays are woken is part of the report, and no failure of it.
func TestStatusSaysWhetherRelaysAreWoken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, json, text string
		err              error
	}{
		{"heard", `{"heard":true}`, "", nil},
		{"deaf", `{"heard":false,"error":"listen: wake-ups do not arrive over this connection"}`,
			"\nRelays with this store URL are not woken, and poll: listen: wake-ups do not arrive", fmt.Errorf("listen: %w", waybill.ErrDeaf)},
		{"not known", `{"heard":null,"error":"too many clients"}`,
			"\nWhether relays with this store URL are woken is not known: too many clients", errors.New("too many clients")},
	} {
		t.Run(c.name, func(t *testing.T) {
			report, err := ops.Status(t.Context(), ear{err: c.err}, registry(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(report.WakeUps)
			if err != nil || string(got) != c.json {
				t.Errorf("JSON = %s, %v, want %s", got, err, c.json)
			}
			var text strings.Builder
			if err := report.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if c.text == "" && strings.Contains(text.String(), "woken") || !strings.Contains(text.String(), c.text) {
				t.Errorf("the text does not say %q:\n%s", c.text, text.String())
			}
		})
	}
}
