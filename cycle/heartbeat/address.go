package heartbeat

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"agentstateloop/internal/lazy"
)

// The errors of an unusable address. Their texts contain no part of it.
var (
	ErrNotURL      = errors.New("is not an https URL")
	ErrPort        = errors.New("has a port that is not a number from 1 to 65535")
	ErrPassword    = errors.New("must not contain a user or a password")
	ErrUnencrypted = errors.New("would be requested unencrypted")
)

// parse returns the parsed address, or one of the errors above. Unless insecure is true, http is
// allowed to this machine only.
func parse(address string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil && strings.Contains(err.Error(), "invalid port"):
		return nil, ErrPort
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, ErrNotURL
	case u.Port() != "" && !isPort(u.Port()):
		return nil, ErrPort
	case u.User != nil:
		return nil, ErrPassword
	case u.Scheme == "http" && !insecure && !loopback(u.Hostname()):
		return nil, ErrUnencrypted
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// Check returns the error of parse for an address, or nil.
func Check(address string, insecure bool) error {
	_, err := parse(address, insecure)
	return err
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// kumaPath matches the path of a push monitor of Uptime Kuma.
var kumaPath = lazy.NewRegexp(`/api/push/[^/]+/?$`)

// failureURL returns the URL that reports a failure. By default /fail is appended to the path,
// which is the convention of healthchecks.io. A push URL of Uptime Kuma, or a URL with status=up
// in its query, gets status=down and msg in its query instead. The rest of the URL stays as it
// is.
func failureURL(u url.URL, reason string) *url.URL {
	fields := strings.Split(u.RawQuery, "&")
	status, msg := -1, -1
	for i, field := range fields {
		switch name, _, _ := strings.Cut(field, "="); name {
		case "status":
			status = i
		case "msg":
			msg = i
		}
	}
	if !kumaPath.Get().MatchString(u.EscapedPath()) && (status < 0 || fields[status] != "status=up") {
		u.Path = strings.TrimSuffix(u.Path, "/") + "/fail"
		if u.RawPath != "" {
			u.RawPath = strings.TrimSuffix(u.RawPath, "/") + "/fail"
		}
		return &u
	}
	set := func(at int, field string) {
		if at < 0 {
			fields = append(fields, field)
			return
		}
		fields[at] = field
	}
	set(status, "status=down")
	set(msg, "msg="+url.QueryEscape(reason))
	u.RawQuery = strings.TrimPrefix(strings.Join(fields, "&"), "&")
	return &u
}

// slug matches a word that a person may have chosen, and that may occur elsewhere with another
// meaning, such as a handle.
var slug = lazy.NewRegexp(`^[a-z0-9_-]{1,32}$`)

// Secrets returns the texts that reveal an address: the address, its path and query, and the
// keys in them. The host is not a secret, because an error without it is useless.
func Secrets(address string) []string {
	texts := []string{address}
	u, err := url.Parse(address)
	if err != nil {
		return texts
	}
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if len(parts) > 1 || !slug.Get().MatchString(parts[0]) {
		texts = append(texts, u.EscapedPath(), u.RequestURI())
	}
	for _, field := range strings.Split(u.RawQuery, "&") {
		_, value, _ := strings.Cut(field, "=")
		parts = append(parts, value)
	}
	for _, part := range parts {
		if !slug.Get().MatchString(part) {
			texts = append(texts, part)
		}
	}
	return texts
}
