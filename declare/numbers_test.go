package declare_test

import (
	"strings"
	"testing"
)

// Trap 29: what a float or a boolean smuggles past a comparison. Where a number belongs
// there is no other reading of these than a mistake.
func TestNumbersThatAreNone(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"lease", "timeout", "give_up_after", "max_attempts", "backoff: {base", "backoff: {cap"} {
		for _, value := range []string{".nan", "NaN", ".inf", "-.inf", "inf", "true", "yes", "1e400", "0x10", "-1", "-1s", "0", "''"} {
			text := "receivers:\n- key: a\n  event: x\n  http: {url: 'http://sink.example'}\n  " + field + ": " + value
			name, nested := strings.CutPrefix(field, "backoff: {")
			if nested {
				text += "}"
			}
			reg, err := read(t, text+"\n")
			if err == nil || !strings.Contains(err.Error(), name+": ") || len(reg.Receivers()) != 0 {
				t.Errorf("%s: %s is read as %v, %v", field, value, reg.Receivers(), err)
			}
		}
	}
}
