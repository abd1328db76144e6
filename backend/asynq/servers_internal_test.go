package asynq

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestServersAreJudged(t *testing.T) {
	t.Parallel()
	unknown := waybill.Reading[int64]{}
	known := func(n int64) waybill.Reading[int64] { return waybill.Known(n) }
	for name, c := range map[string]struct {
		published          *servers
		seen               sight
		active             int64
		consumers, running waybill.Reading[int64]
	}{
		"all at work":                 {&servers{2, 10, 7}, sight{2, true, time.Hour}, 9, known(10), known(9)},
		"idle":                        {&servers{2, 10, 0}, sight{2, true, time.Hour}, 0, known(10), known(0)},
		"nobody":                      {&servers{}, sight{0, true, time.Hour}, 0, known(0), known(0)},
		"nobody, and leftovers":       {&servers{}, sight{0, true, time.Hour}, 3, known(0), unknown},
		"more out than slots":         {&servers{2, 10, 7}, sight{2, true, time.Hour}, 11, known(10), unknown},
		"none out, and they run some": {&servers{2, 10, 7}, sight{2, true, time.Hour}, 0, known(10), unknown},
		"one died just now":           {&servers{2, 10, 7}, sight{1, true, time.Hour}, 9, known(10), known(9)},
		"forgotten by a flush":        {&servers{}, sight{2, true, time.Hour}, 0, unknown, unknown},
		"one has published again":     {&servers{1, 5, 5}, sight{2, true, time.Hour}, 0, unknown, unknown},
		"just started":                {&servers{1, 5, 5}, sight{1, true, time.Second}, 5, unknown, unknown},
		"just started, and nobody":    {&servers{}, sight{0, true, 1}, 0, unknown, unknown},
		"nobody, uptime unknown":      {&servers{}, sight{0, true, 0}, 0, unknown, unknown},
		"nobody, presence unknown":    {&servers{}, sight{0, false, time.Hour}, 0, unknown, unknown},
		"some, nothing else is known": {&servers{1, 5, 5}, sight{0, false, 0}, 5, known(5), known(5)},
		"redis does not tell":         {nil, sight{2, true, time.Hour}, 5, unknown, unknown},
	} {
		consumers := c.published.consumers(c.seen)
		if consumers != c.consumers {
			t.Errorf("%s: %s consumers, want %s", name, consumers, c.consumers)
		}
		if running := c.published.running(c.active, consumers); running != c.running {
			t.Errorf("%s: %s running, want %s", name, running, c.running)
		}
	}
}
