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

// access says who may make a call.
type access int

const (
	anyone access = iota // who passes admit
	known                // a token, or an open mesh's loopback
	owner                // known, and where the {handle} has a token, that one
)

// CheckBrowser refuses what a browser sends for a web page (DESIGN 8): a name that was
// rebound to loopback shows in Host, a cross-site request in Origin. hosts are
// names that may be asked for beside localhost and the loopback addresses.
func CheckBrowser(r *http.Request, hosts ...string) error {
	if r.Header.Get("Origin") != "" {
		return refuse(http.StatusForbidden, "the mesh takes no requests of web pages (Origin)")
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" {
		return refuse(http.StatusForbidden, "the mesh takes no requests of web pages (Sec-Fetch-Site)")
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	if host == "localhost" || slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return nil
	}
	return refuse(http.StatusMisdirectedRequest, "not reached under that Host; use 127.0.0.1")
}

// authenticate says who calls: the handle a token proves, "" for an unproven
// caller whom the call admits. A token that proves nothing is refused even
// where none is needed, so that its owner learns of it.
func (s *Server) authenticate(r *http.Request, a access) (caller string, err error) {
	handle := r.PathValue("handle")
	if handle != "" && !state.ValidHandle(handle) {
		return "", refuse(http.StatusBadRequest, "not a handle; want [a-z0-9][a-z0-9-]{0,31}")
	}
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		caller = s.tokens[sha256.Sum256([]byte(strings.TrimSpace(token)))]
		if !strings.EqualFold(scheme, "Bearer") || caller == "" {
			return "", refuse(http.StatusUnauthorized, "the token is not one of this mesh")
		}
	}
	switch {
	case caller == "" && a != anyone && !s.allowsUnproven(r):
		return "", refuse(http.StatusUnauthorized, "this call needs a bearer token")
	case a == owner && caller != handle && (caller != "" || s.options.Tokens[handle] != ""):
		return "", refuse(http.StatusForbidden, "only the token of %s may do this", handle)
	}
	return caller, nil
}

// allowsUnproven says whether r may come without a token.
func (s *Server) allowsUnproven(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return s.options.Open && err == nil && from.Addr().Unmap().IsLoopback()
}

// resolveSender settles who a message or nudge is from: what the token proves, else
// what an open mesh is told.
func resolveSender(caller, claimed string) (from string, err error) {
	switch {
	case caller == "" && !state.ValidHandle(claimed):
		return "", refuse(http.StatusBadRequest, "from is not a handle; want [a-z0-9][a-z0-9-]{0,31}")
	case caller != "" && claimed != "" && claimed != caller:
		return "", refuse(http.StatusForbidden, "the token does not prove this from")
	case caller != "":
		return caller, nil
	default:
		return claimed, nil
	}
}

// checkRecipient refuses handles nobody reads: those that have no token on a mesh
// that needs one.
func (s *Server) checkRecipient(handle string) error {
	if !state.ValidHandle(handle) {
		return refuse(http.StatusBadRequest, "to is not a handle; want [a-z0-9][a-z0-9-]{0,31}")
	}
	if s.options.Tokens[handle] == "" && !s.options.Open {
		return refuse(http.StatusNotFound, "unknown handle %s", handle)
	}
	return nil
}
