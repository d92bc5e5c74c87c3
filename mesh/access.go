package mesh

import (
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"agentstateloop/state"
)

// access is the proof of identity that a call requires from its caller.
type access int

const (
	anyone access = iota // no proof
	known                // a token, or loopback on an open mesh
	owner                // as known, plus the token of {handle} if it has one
)

// CheckBrowser returns an error for a request that a browser sends on behalf of a web page
// (docs/protocol.md, "The mesh"). A foreign Host reveals a name that was rebound to loopback. An
// Origin reveals a cross-site request. hosts are the names allowed in Host besides localhost
// and the loopback addresses.
func CheckBrowser(r *http.Request, hosts ...string) error {
	if r.Header.Get("Origin") != "" {
		return refuse(http.StatusForbidden, "requests from web pages are not allowed (Origin)")
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" {
		return refuse(http.StatusForbidden, "requests from web pages are not allowed (Sec-Fetch-Site)")
	}
	if LoopbackHost(r.Host) || slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, hostName(r.Host)) }) {
		return nil
	}
	return refuse(http.StatusMisdirectedRequest, "this Host is not allowed; use 127.0.0.1")
}

// LoopbackHost reports whether a Host header names localhost or a loopback address, at any port.
func LoopbackHost(host string) bool {
	name := hostName(host)
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(name, "localhost")
}

// hostName returns a Host header without its port, and without the brackets of an IPv6 address.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(host, "[]")
}

// authenticate returns the handle that the caller's token proves. It returns "" for a caller
// without a token if the call allows one. An unknown token is refused even if the call requires
// no token, so that its owner learns that it is wrong.
func (s *Server) authenticate(r *http.Request, a access) (caller string, err error) {
	handle := r.PathValue("handle")
	if handle != "" && !state.ValidHandle(handle) {
		return "", refuse(http.StatusBadRequest, "invalid handle: "+state.HandleRule)
	}
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		caller = s.tokens[sha256.Sum256([]byte(strings.TrimSpace(token)))]
		if !strings.EqualFold(scheme, "Bearer") || caller == "" {
			return "", refuse(http.StatusUnauthorized, "this mesh does not accept the token")
		}
	}
	switch {
	case caller == "" && a != anyone && !s.allowsUnproven(r):
		return "", refuse(http.StatusUnauthorized, "this call requires a bearer token")
	case a == owner && caller != handle && (caller != "" || s.options.Tokens[handle] != ""):
		return "", refuse(http.StatusForbidden, "this call requires the token of %s", handle)
	}
	return caller, nil
}

// allowsUnproven reports whether r may come without a token.
func (s *Server) allowsUnproven(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return s.options.Open && err == nil && from.Addr().Unmap().IsLoopback()
}

// resolveSender returns the sender of a message or nudge: the handle that the token proves.
// Without a token it returns the claimed handle or a label.
func resolveSender(caller, claimed string) (from string, err error) {
	switch {
	case caller != "" && claimed != "" && claimed != caller:
		return "", refuse(http.StatusForbidden, "from must be %s, the owner of the token: omit from, or send without a token if the mesh is open", caller)
	case caller != "":
		return caller, nil
	case strings.TrimSpace(claimed) == "":
		return "", refuse(http.StatusBadRequest, "from is missing: use a handle, or in a script any name; "+state.HandleRule)
	}
	return label(claimed), nil
}

// maxLabel limits, in characters, the name of a sender that is not an agent.
const maxLabel = 64

// label returns the name of an unproven sender. A valid handle stays as it is. In any other
// name, label replaces the characters that do not fit into a key and a line, and cuts off the
// rest of a long name. It never makes a valid handle from an invalid one.
func label(name string) string {
	if state.ValidHandle(strings.TrimSpace(name)) {
		return strings.TrimSpace(name)
	}
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._@-", r) {
			return r
		}
		return '_'
	}, strings.TrimSpace(name))
	return clean[:min(len(clean), maxLabel)]
}

// checkRecipient returns an error for a handle whose mailbox cannot be read: one without a
// token on a mesh that is not open.
func (s *Server) checkRecipient(handle string) error {
	if !state.ValidHandle(handle) {
		return refuse(http.StatusBadRequest, "to is not a valid handle: "+state.HandleRule)
	}
	if s.options.Tokens[handle] == "" && !s.options.Open {
		return refuse(http.StatusNotFound, "unknown handle %s", handle)
	}
	return nil
}
