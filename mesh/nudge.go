package mesh

import (
	"crypto/rand"
	"net/http"
)

// postNudge puts a nudge into an agent's mailbox, calls the agent's wake address and answers
// 202. The mailbox holds one nudge of each sender, the latest, until it is acknowledged.
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
	if err := s.paceNudge(m); err != nil {
		return 0, nil, err
	}
	if err := s.deliverNudge(m); err != nil {
		return 0, nil, err
	}
	s.ring(handle, m.Proven)
	return http.StatusAccepted, posted{m.ID}, nil
}

func (s *Server) paceNudge(m Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pace(callNudge, m.From, m.Proven)
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
