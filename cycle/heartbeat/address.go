package heartbeat

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"agentstateloop/internal/lazy"
)

// An address that cannot be used. The texts hold no part of it.
var (
	ErrNotURL      = errors.New("is not an https URL")
	ErrPort        = errors.New("has a port that is not a number from 1 to 65535")
	ErrPassword    = errors.New("must hold no user and no password")
	ErrUnencrypted = errors.New("would be asked unencrypted")
)

// parse returns an address, or one of the errors above. Unless insecure is true, http is
// for this machine alone.
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

// Check returns why an address cannot be used, or nil.
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

// failing returns where a failure is reported: /fail behind the path, as healthchecks.io
// has it. An address of Uptime Kuma, which has the state in its query, gets status=down
// and msg there. All else stays as it is.
func failing(u url.URL, reason string) *url.URL {
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

// slug matches what a person may have chosen, and what may stand elsewhere with another
// meaning, such as a handle.
var slug = lazy.NewRegexp(`^[a-z0-9_-]{1,32}$`)

// Secrets returns the texts by which an address may be known: the address, its path and
// query, and the keys in them. Its host is not one: an error that cannot name it helps
// nobody.
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
