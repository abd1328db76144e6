// Package wire makes stores and queues of URLs. Beside cli it is the only place
// that knows adapters of both kinds.
//
// Its errors are for the person at the terminal: one line each, which says what is
// wrong and what to do, and never a password, also where a client library's own
// text would.
package wire

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

const (
	postgresExample = "postgres://user:password@host:5432/database"
	storeExamples   = postgresExample + " or sqlite:waybill.db"
	backendExamples = "redis://user:password@host:6379/0 (rediss:// for TLS), amqp://user:password@host:5672/vhost (amqps:// for TLS), " +
		"river: for River in the store's database (river+postgres://… or river+sqlite:PATH for another), or local: for one process"
)

// scheme returns what stands before the first colon of a URL, in lower case.
func scheme(rawURL string) (string, bool) {
	name, _, ok := strings.Cut(rawURL, ":")
	return strings.ToLower(name), ok
}

// unknownScheme names the schemes that are known. It quotes the scheme only if it
// looks like one: text before a colon may as well be a password.
func unknownScheme(rawURL, examples string) error {
	name, ok := scheme(rawURL)
	rest := rawURL[min(len(name)+1, len(rawURL)):]
	if !ok || !strings.HasPrefix(rest, "//") || strings.ContainsFunc(name, notInScheme) {
		return fmt.Errorf("not a URL: want %s", examples)
	}
	return fmt.Errorf("unknown scheme %s: want %s", name, examples)
}

func notInScheme(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '+' && c != '-' && c != '.'
}

// errUnreadable is all that can be said of a URL that does not parse: where the
// password ends is not known in it.
func errUnreadable(examples string) error {
	return fmt.Errorf("the URL cannot be read: want %s, with special characters of the password percent-encoded (@ is %%40, / is %%2F)", examples)
}

// parse reads a URL with a host. A URL in which an @ is left over has a password
// with a character in it that had to be encoded: it would connect to a host that
// is part of the password, and tell everybody its name.
func parse(rawURL, examples string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		return nil, errUnreadable(examples)
	}
	if strings.Contains(u.Path, "@") || (u.User == nil && strings.Contains(u.RawQuery, "@")) {
		return nil, errUnreadable(examples)
	}
	return u, nil
}

// hide returns the error's text as one line without the URL's password, in any of
// the forms it may have taken.
func hide(rawURL string, err error) string {
	text := strings.Join(strings.FieldsFunc(err.Error(), func(c rune) bool { return c == '\n' || c == '\t' }), " ")
	u, parseErr := url.Parse(rawURL)
	if parseErr != nil {
		return text
	}
	secrets := []string{u.Query().Get("password"), u.Query().Get("sslpassword")}
	if password, ok := u.User.Password(); ok {
		_, raw, _ := strings.Cut(u.User.String(), ":")
		secrets = append(secrets, password, raw, url.QueryEscape(password))
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[hidden]")
		}
	}
	return text
}

// quiet is an error of a client library with its password hidden, which still
// answers errors.Is and errors.As.
type quiet struct {
	text string
	err  error
}

func (q *quiet) Error() string { return q.text }
func (q *quiet) Unwrap() error { return q.err }

func hidden(rawURL string, err error) error { return &quiet{hide(rawURL, err), err} }

// hint joins what is wrong and what to do.
func hint(what string, do string) error { return errors.New(what + ": " + do) }
