package amqp

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrURL is the whole of what is said about a URL that cannot be read: where the
// password ends is not known in one.
var ErrURL = errors.New("cannot read the rabbitmq URL; want amqp://[user:password@]host[:port][/vhost], or amqps:// for TLS, " +
	"several of them with commas between, and special characters of user, password and vhost percent-encoded")

// errParameter does not name the parameter, for the same reason.
var errParameter = errors.New("the rabbitmq URL has a parameter that nobody reads; there are heartbeat, connection_timeout, channel_max, auth_mechanism, " +
	"certfile, keyfile, cacertfile, server_name_indication, and for the command line and ParseURLs queue_type and passive")

// The parameters of a URL that the client library reads. It ignores every other.
var libraryParameters = map[string]bool{
	"heartbeat": true, "connection_timeout": true, "channel_max": true, "auth_mechanism": true,
	"certfile": true, "keyfile": true, "cacertfile": true, "server_name_indication": true,
}

// The parameters of a URL that ParseURLs reads.
const (
	parameterType    = "queue_type"
	parameterPassive = "passive"
)

// ParseURLs returns a Config with the URLs of a text, which has commas between
// them. The parameters queue_type (quorum or classic) and passive (true or false)
// become Config.Type and Config.Passive; those of the client library (heartbeat,
// cacertfile and others) stay where they are. No error tells a password.
func ParseURLs(text string) (Config, error) {
	var config Config
	said := make(map[string]string)
	for _, raw := range splitURLs(text) {
		u, err := parseURL(raw)
		if err != nil {
			return Config{}, err
		}
		query := u.Query()
		for _, name := range []string{parameterType, parameterPassive} {
			if !query.Has(name) {
				continue
			}
			value := query.Get(name)
			if before, ok := said[name]; ok && before != value {
				return Config{}, fmt.Errorf("the rabbitmq URLs disagree about %s", name)
			}
			said[name] = value
			query.Del(name)
		}
		u.RawQuery = query.Encode()
		if _, err := parseEndpoint(u.String()); err != nil {
			return Config{}, err
		}
		config.URLs = append(config.URLs, u.String())
	}
	if kind, ok := said[parameterType]; ok {
		if kind != quorum && kind != classic {
			return Config{}, fmt.Errorf("%s in the rabbitmq URL: want %s or %s", parameterType, quorum, classic)
		}
		config.Type = kind
	}
	if text, ok := said[parameterPassive]; ok {
		passive, err := strconv.ParseBool(text)
		if err != nil {
			return Config{}, fmt.Errorf("%s in the rabbitmq URL: want true or false", parameterPassive)
		}
		config.Passive = passive
	}
	return config, nil
}

// splitURLs splits at the commas that a URL follows: a password may have others.
func splitURLs(text string) []string {
	var urls []string
	start := 0
	for i := range text {
		rest, isComma := strings.CutPrefix(text[i:], ",")
		rest = strings.TrimSpace(rest)
		if isComma && (strings.HasPrefix(rest, "amqp://") || strings.HasPrefix(rest, "amqps://")) {
			urls = append(urls, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	return append(urls, strings.TrimSpace(text[start:]))
}

// parseURL refuses, beyond what is no URL, every form in which a part of the
// password could be taken for something else, and be told as such.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "amqp" && u.Scheme != "amqps" {
		return nil, ErrURL
	}
	_, afterScheme, _ := strings.Cut(raw, "://")
	_, beyond, _ := strings.Cut(afterScheme, "/")
	_, query, _ := strings.Cut(afterScheme, "?")
	if strings.ContainsAny(raw, "# ") || strings.ContainsAny(beyond+query, "@,") || strings.ContainsAny(u.Host, ",@") {
		return nil, ErrURL
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, ErrURL
	}
	return u, nil
}

// endpoint is one URL, and what may be told of it.
type endpoint struct {
	url     string
	place   string        // host:port and vhost, without the credentials
	timeout time.Duration // of a connection; zero if the URL does not say
}

func parseEndpoint(raw string) (endpoint, error) {
	u, err := parseURL(raw)
	if err != nil {
		return endpoint{}, err
	}
	for name := range u.Query() {
		if !libraryParameters[name] {
			return endpoint{}, errParameter
		}
	}
	parsed, err := amqp.ParseURI(raw)
	if err != nil || parsed.ConnectionTimeout < 0 || parsed.Port < 1 || parsed.Port > 65535 {
		return endpoint{}, ErrURL
	}
	return endpoint{
		url:     raw,
		place:   net.JoinHostPort(parsed.Host, strconv.Itoa(parsed.Port)) + ", vhost " + parsed.Vhost,
		timeout: time.Duration(parsed.ConnectionTimeout) * time.Millisecond,
	}, nil
}
