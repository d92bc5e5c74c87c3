package mesh

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// postMessage accepts a message and answers 202 {id}. If the same sender has already sent this
// id to the same agent, it answers 200 and does not store the message again.
func (s *Server) postMessage(w http.ResponseWriter, r *http.Request, caller string) (int, any, error) {
	var body postedMessage
	if err := readBody(w, r, &body); err != nil {
		return 0, nil, err
	}
	p, err := body.post()
	if err != nil {
		return 0, nil, refuse(http.StatusBadRequest, "%v", err)
	}
	m, err := s.message(p, caller)
	if err != nil {
		return 0, nil, err
	}
	fresh, err := s.deliver(m)
	code := http.StatusOK
	if fresh {
		code = http.StatusAccepted
		s.ring(m.To, m.Proven)
	}
	return code, receiptBody{m.ID}, err
}

// message checks the body of a call and returns it as a message, with the
// fields that only the server may set.
func (s *Server) message(p postBody, caller string) (Message, error) {
	from, err := resolveSender(caller, p.From)
	if err != nil {
		return Message{}, err
	}
	if err := s.checkRecipient(p.To); err != nil {
		return Message{}, err
	}
	m := Message{
		ID: cmp.Or(p.ID, rand.Text()), From: from, To: p.To, Text: p.Text, Kind: cmp.Or(p.Kind, KindMessage),
		Correlation: p.Correlation, Hops: p.Hops, ResultFields: p.ResultFields, Trace: p.Trace,
		Status: p.Status, TurnID: p.TurnID, Epoch: p.Epoch, Fields: p.Fields, AfterExecution: p.AfterExecution,
		Files:  p.Files,
		Proven: caller != "", SentAt: s.clock(),
	}
	for i := range m.Files {
		m.Files[i].Missing = "" // only the recipient sets it
	}
	if wrong := m.Unsendable(); wrong != "" {
		err = refuse(http.StatusBadRequest, "%s", wrong)
	}
	return m, err
}

// Unsendable returns, in words, why no mesh takes a message, or "".
func (m Message) Unsendable() string {
	causesTurn := m.Kind == KindMessage || m.Kind == KindAsk
	switch {
	case !validID(m.ID):
		return "id must have 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + = , -"
	case m.Kind == KindNudge:
		return "a nudge is not a message: send it with POST /nudge/{handle}"
	case !causesTurn && m.Kind != KindReport && m.Kind != KindRelay && m.Kind != KindNotice:
		return "unknown kind: use message, ask, report, relay or notice"
	case causesTurn && strings.TrimSpace(m.Text) == "":
		return "the message is empty"
	case len(m.Hops) > MaxHops:
		return fmt.Sprintf("more than %d hops", MaxHops)
	}
	return m.malformedFields()
}

// deliver puts m into its mailbox, unless its id was posted before. If it returns no error, the
// message is on disk, including the first copy of a repeated message. If it returns an error, a
// fresh message may still be in the mailbox; its sender will repeat it.
func (s *Server) deliver(m Message) (fresh bool, err error) {
	if fresh, err = s.addMessage(m); err != nil {
		return false, err
	}
	return fresh, s.persist(true)
}

func (s *Server) addMessage(m Message) (fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger.seen[storedMessage{Message: m}.postKey()] {
		return false, nil
	}
	if err := s.checkRoom(m); err != nil {
		return false, err
	}
	if err := s.pace(callMessage, m.From, m.Proven); err != nil {
		return false, err
	}
	if missing := s.blobs.name(m); missing != "" {
		return false, refuse(http.StatusConflict, "the mesh does not have the file %s: upload it first with PUT /blob/{sha256}", foreignLine(missing))
	}
	s.change(record{Message: &m})
	s.notify(m.To)
	return true, nil
}

func (s *Server) checkRoom(m Message) error {
	full := s.ledger.full(m)
	if full == "" {
		return nil
	}
	r := refuse(http.StatusServiceUnavailable, "%s", full)
	r.after = time.Minute
	return r
}

// clock returns the time as it is stored: UTC, without the monotonic reading.
func (s *Server) clock() time.Time { return s.now().UTC().Round(0) }

// validID reports whether s is safe in a path, a log line and a Message-ID.
func validID(s string) bool {
	if s == "" || len(s) > maxSentID || strings.Trim(s, ".") == "" {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._~:@+=,-", r)
	})
}

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
	return http.StatusAccepted, receiptBody{m.ID}, nil
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
