package mesh

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// WakePath returns the path of the wake addresses of an agent. secret is a result of
// crypto/rand.Text.
func WakePath(handle, secret string) string { return "/agentstateloop/wake/" + handle + "/" + secret }

// secretLength is the length of the secret of a wake address, 130 bits of base32.
const secretLength = 26

func isSecret(s string) bool {
	return len(s) == secretLength && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// checkWake returns an error unless wake is an address that our listener makes for the agent:
// http, a loopback IP, a port, WakePath. The mesh posts to the address. Any other address would
// let an agent call other services on this machine, or other machines.
func checkWake(handle, wake string) error {
	u, err := url.Parse(wake)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Port() == "" {
		return refuse(http.StatusBadRequest, "invalid wake: expected the wake address of a running `agentstateloop listen`")
	}
	address, err := netip.ParseAddrPort(u.Host)
	if err != nil || !address.Addr().IsLoopback() || address.Port() == 0 {
		return refuse(http.StatusBadRequest, "wake is not a loopback address with a port")
	}
	secret, ours := strings.CutPrefix(u.Path, WakePath(handle, ""))
	if !ours || !isSecret(secret) || wake != "http://"+address.String()+u.Path {
		return refuse(http.StatusBadRequest, "invalid wake: expected the wake address of a running `agentstateloop listen` of %s", handle)
	}
	return nil
}

// isOldWake reports whether wake is an address of a listener from before WakePath. The mesh
// does not call it: the long poll of such a listener still wakes its agent.
func isOldWake(handle, wake string) bool {
	i := strings.LastIndex(wake, "/wake/"+handle+"/")
	return i >= 0 && checkWake(handle, wake[:i]+"/agentstateloop"+wake[i:]) == nil
}

// ringState describes a running call to a wake address. again is set if another ring came
// during the call.
type ringState struct{ again bool }

// ring calls an agent's wake address in the background, one call at a time. Rings during a call
// cause one further call. A failed call loses no message, because the mailbox holds it.
// Unproven senders together ring an agent callsPerMinute times a minute; their other messages
// wait for its long poll.
func (s *Server) ring(handle string, proven bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger.agents[handle].Wake == "" || !proven && s.pace(callRing, handle, false) != nil {
		return
	}
	if now := s.ringing[handle]; now != nil {
		now.again = true
		return
	}
	s.ringing[handle] = &ringState{}
	s.rings.Go(s.options.Secrets.Guarded(func() { s.ringUntilQuiet(handle) }))
}

func (s *Server) ringUntilQuiet(handle string) {
	for {
		s.mu.Lock()
		wake := s.ledger.agents[handle].Wake
		s.ringing[handle].again = false
		s.mu.Unlock()

		err := s.callWake(handle, wake)

		s.mu.Lock()
		if errors.Is(err, syscall.ECONNREFUSED) {
			s.forgetWake(handle, wake)
		}
		if !s.ringing[handle].again {
			delete(s.ringing, handle)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// forgetWake removes a wake address that refuses connections, before another
// program gets its port.
func (s *Server) forgetWake(handle, wake string) {
	if p := s.ledger.agents[handle]; p.Wake == wake {
		p.Wake = ""
		s.change(record{Presence: &p})
	}
}

// callWake posts to a wake address. The call has no body, so no text from a sender reaches the
// port. An older mesh may have stored a wrong address, so callWake checks it.
func (s *Server) callWake(handle, wake string) error {
	if err := checkWake(handle, wake); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), ringTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, wake, nil)
	if err != nil {
		return err
	}
	resp, err := s.wake.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// ringTimeout limits one call to a wake address.
const ringTimeout = 2 * time.Second

// loopbackOnly is the Control of a net.Dialer. It refuses any address but loopback, regardless
// of the registry.
func loopbackOnly(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return errors.New("the wake address is not a loopback address")
	}
	return nil
}
