package mesh

import (
	"bytes"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// postNudge puts a nudge into an agent's mailbox, calls its wake address and
// answers 202. The mailbox holds one nudge, the latest, until it is acknowledged.
func (s *Server) postNudge(w http.ResponseWriter, r *http.Request, caller string) (int, any, error) {
	var body nudgeBody
	if err := readBody(w, r, &body); err != nil {
		return 0, nil, err
	}
	from, err := resolveSender(caller, body.From)
	if err != nil {
		return 0, nil, err
	}
	handle := r.PathValue("handle")
	if err := s.checkRecipient(handle); err != nil {
		return 0, nil, err
	}
	m := Message{
		ID: "nudge." + rand.Text(), From: from, To: handle, Text: body.Reason, Kind: KindNudge,
		Proven: caller != "", SentAt: s.clock(),
	}
	if err := s.deliverNudge(m); err != nil {
		return 0, nil, err
	}
	s.ring(handle, nudgeBody{From: from, Reason: body.Reason})
	return http.StatusAccepted, map[string]string{"id": m.ID}, nil
}

func (s *Server) deliverNudge(m Message) error {
	s.mu.Lock()
	err := s.checkRoom(m)
	if err == nil {
		s.change(record{Message: &m})
		s.notify(m.To)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.persist(true)
}

// ringState describes the call to a wake address that is under way. again is set
// if another ring came during the call; last is the latest ring.
type ringState struct {
	again bool
	last  nudgeBody
}

// ring calls an agent's wake address in the background, one call at a time. Rings
// that come during a call cause one further call. A call that fails loses
// nothing, because the mailbox holds the message.
func (s *Server) ring(handle string, r nudgeBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger.agents[handle].Wake == "" {
		return
	}
	if now := s.ringing[handle]; now != nil {
		now.again, now.last = true, r
		return
	}
	s.ringing[handle] = &ringState{last: r}
	s.rings.Go(s.options.Secrets.Guarded(func() { s.ringUntilQuiet(handle) }))
}

func (s *Server) ringUntilQuiet(handle string) {
	for {
		s.mu.Lock()
		wake, r := s.ledger.agents[handle].Wake, s.ringing[handle].last
		s.ringing[handle].again = false
		s.mu.Unlock()

		err := s.callWake(wake, r)

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

func (s *Server) callWake(wake string, r nudgeBody) error {
	if wake == "" {
		return nil
	}
	body, err := encode(r)
	if err != nil {
		return err
	}
	ctx, cancel := s.ringContext()
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, wake, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.wake.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// checkWake returns an error unless wake is an http URL on loopback that names
// its port. Any other address could lead off the machine or to another program.
func checkWake(wake string) error {
	u, err := url.Parse(wake)
	if err != nil || len(wake) > 512 || u.Scheme != "http" || u.User != nil || u.Port() == "" || u.Fragment != "" {
		return refuse(http.StatusBadRequest, "invalid wake: use a URL like http://127.0.0.1:9000/nudge")
	}
	if ip := net.ParseIP(u.Hostname()); (ip == nil || !ip.IsLoopback()) && !strings.EqualFold(u.Hostname(), "localhost") {
		return refuse(http.StatusBadRequest, "wake is not a loopback address")
	}
	return nil
}
