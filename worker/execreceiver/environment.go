package execreceiver

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill"
)

// Variables that say which delivery it is.
const (
	deliveryVariable = "WAYBILL_DELIVERY_ID"
	eventVariable    = "WAYBILL_EVENT"
	eventIDVariable  = "WAYBILL_EVENT_ID"
	versionVariable  = "WAYBILL_EVENT_VERSION"
	chainVariable    = "WAYBILL_CORRELATION_ID"
	attemptVariable  = "WAYBILL_ATTEMPT"
	receiverVariable = "WAYBILL_RECEIVER"
	targetVariable   = "WAYBILL_TARGET"
)

var reserved = []string{deliveryVariable, eventVariable, eventIDVariable, versionVariable, chainVariable, attemptVariable, receiverVariable, targetVariable}

// handedDown are the variables of this process that a command gets as well: what
// programs need to work at all, and no passwords.
var handedDown = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "LANG", "LANGUAGE"}

// handedDownOnWindows is without the one that os/exec always adds, SYSTEMROOT.
var handedDownOnWindows = []string{"PATHEXT", "COMSPEC", "TEMP", "TMP", "USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "WINDIR"}

// checkEnv never quotes a value, which may be a secret.
func checkEnv(env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch {
		case !isName(name):
			return fmt.Errorf("env %q is not a variable's name: want letters, digits and _, and no digit first", name)
		case slices.Contains(reserved, name):
			return fmt.Errorf("env %s is set by the delivery itself and cannot be configured", name)
		case strings.ContainsRune(env[name], 0):
			return fmt.Errorf("env %s: its value holds a NUL", name)
		}
	}
	return nil
}

func isName(name string) bool {
	for i, c := range name {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if digit := c >= '0' && c <= '9'; !letter && (!digit || i == 0) {
			return false
		}
	}
	return name != ""
}

// environment is what every run of the command gets.
func environment(own map[string]string) []string {
	all := map[string]string{}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if isHandedDown(name) {
			all[name] = value
		}
	}
	maps.Copy(all, own)
	var environment []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		environment = append(environment, name+"="+all[name])
	}
	return environment
}

func isHandedDown(name string) bool {
	if runtime.GOOS == "windows" {
		name = strings.ToUpper(name)
		if slices.Contains(handedDownOnWindows, name) {
			return true
		}
	}
	return slices.Contains(handedDown, name) || strings.HasPrefix(name, "LC_")
}

// facts are the variables that say which delivery it is. They are verbatim: none of
// them can hold a NUL, which is all that a variable cannot carry.
func facts(d *waybill.Delivery) []string {
	facts := []string{
		deliveryVariable + "=" + strconv.FormatInt(d.ID, 10),
		eventVariable + "=" + d.Event.Name,
		eventIDVariable + "=" + strconv.FormatInt(d.Event.ID, 10),
		versionVariable + "=" + strconv.Itoa(d.Event.Version),
		chainVariable + "=" + d.Event.CorrelationID,
		attemptVariable + "=" + strconv.Itoa(d.Attempt),
		receiverVariable + "=" + d.Receiver,
	}
	if d.Target != "" {
		facts = append(facts, targetVariable+"="+d.Target)
	}
	return facts
}

// minSecret is how long a value must be to be looked for in what a command writes:
// replacing shorter ones would garble the text and protect nothing.
const minSecret = 6

// secrets are the values that nothing a command writes may show.
type secrets struct {
	replacer *strings.Replacer
	longest  int // in bytes
}

// secretsOf returns the configured values, because a command may write what it was
// given, and the end of that is kept on the row and logged.
func secretsOf(env map[string]string) secrets {
	values := slices.Collect(maps.Values(env))
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // the whole before its parts
	var pairs []string
	longest := 0
	for _, value := range values {
		if len(value) >= minSecret {
			pairs = append(pairs, value, "[hidden]")
			longest = max(longest, len(value))
		}
	}
	return secrets{strings.NewReplacer(pairs...), longest}
}
