package httpreceiver

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill"
)

// reserved headers are set by this package or by the transport.
var reserved = []string{
	"Idempotency-Key", "Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Keep-Alive",
}

const ownPrefix = "Waybill-"

// parseHeaders refuses what a request could not carry. Its errors name the
// header and never its value, which may be a secret.
func parseHeaders(configured map[string]string) (http.Header, error) {
	headers := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"waybill"}}
	seen := make(map[string]string, len(configured))
	for name, value := range configured {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !isToken(name):
			return nil, fmt.Errorf("header %q is not a header's name", name)
		case slices.Contains(reserved, canonical) || strings.HasPrefix(canonical, ownPrefix):
			return nil, fmt.Errorf("header %s is set by the delivery itself and cannot be configured", canonical)
		case !isFieldValue(value):
			return nil, fmt.Errorf("header %s: its value holds a line break or another control character", canonical)
		case seen[canonical] != "":
			return nil, fmt.Errorf("header %s is configured twice, as %q and %q", canonical, seen[canonical], name)
		}
		seen[canonical] = name
		headers.Set(canonical, strings.TrimSpace(value))
	}
	return headers, nil
}

func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

func isFieldValue(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return (c < ' ' && c != '\t') || c == 0x7f })
}

// describe sets the headers that say which delivery this is.
func describe(headers http.Header, d *waybill.Delivery) {
	id := strconv.FormatInt(d.ID, 10)
	headers.Set("Idempotency-Key", id)
	headers.Set("Waybill-Delivery-Id", id)
	headers.Set("Waybill-Event", escape(d.Event.Name))
	headers.Set("Waybill-Event-Id", strconv.FormatInt(d.Event.ID, 10))
	headers.Set("Waybill-Event-Version", strconv.Itoa(d.Event.Version))
	headers.Set("Waybill-Attempt", strconv.Itoa(d.Attempt))
	headers.Set("Waybill-Receiver", escape(d.Receiver))
	if d.Event.CorrelationID != "" {
		headers.Set("Waybill-Correlation-Id", escape(d.Event.CorrelationID))
	}
	if d.Target != "" {
		headers.Set("Waybill-Target", escape(d.Target))
	}
}

// escape percent-encodes what a header cannot carry, and the percent sign, so
// that url.PathUnescape gives the text back.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c > ' ' && c < 0x7f && c != '%', c == ' ' && i > 0 && i < len(text)-1:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// minSecret is how long a value must be to be looked for in answers: replacing
// shorter ones would garble the text and protect nothing.
const minSecret = 6

// secretsOf returns a replacer for the password and the configured headers'
// values, because a destination may quote a request in its answer, and the
// answer is kept on the row and logged.
func secretsOf(u *url.URL, headers http.Header) *strings.Replacer {
	var secrets []string
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password, url.QueryEscape(password), url.PathEscape(password),
			base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	for name, values := range headers {
		if name != "Content-Type" && name != "User-Agent" && name != "Accept" && name != "Host" {
			secrets = append(secrets, values[0])
			secrets = append(secrets, strings.Fields(values[0])...) // "Bearer", and the token by itself
		}
	}
	var pairs []string
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the whole before its parts
	for _, secret := range secrets {
		if len(secret) >= minSecret && !strings.EqualFold(secret, "bearer") {
			pairs = append(pairs, secret, "[hidden]")
		}
	}
	return strings.NewReplacer(pairs...)
}
