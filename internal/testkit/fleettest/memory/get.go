package memory

import (
	"encoding/json"
	"strconv"
	"time"
)

// get is a request for messages of a stream that bypasses its leader.
type get struct {
	Sequence uint64 `json:"seq"`
	Last     string `json:"last_by_subj"`
	Next     string `json:"next_by_subj"`
	Batch    int    `json:"batch"`
	Bytes    int    `json:"max_bytes"`
}

// getNewest answers with the newest message of a subject.
func (e *Engine) getNewest(s *stream, subject string, m message) {
	var g get
	if len(m.body) > 0 && json.Unmarshal(m.body, &g) != nil {
		e.answer(m, status(408, "Malformed Request"))
		return
	}
	if g != (get{Bytes: g.Bytes}) {
		e.answer(m, status(408, "Bad Request"))
		return
	}
	e.answer(m, s.shownAs(s.newest(subject)))
}

// getSome answers with the messages that the body of a request asks for.
func (e *Engine) getSome(s *stream, m message) {
	var g get
	switch {
	case len(m.body) == 0:
		e.answer(m, status(408, "Empty Request"))
	case json.Unmarshal(m.body, &g) != nil:
		e.answer(m, status(408, "Malformed Request"))
	case g.Sequence == 0 && g.Last == "" && g.Next == "":
		e.answer(m, status(408, "Empty Request"))
	case g.Last != "" && (g.Sequence > 0 || g.Next != "" || g.Batch > 0):
		e.answer(m, status(408, "Bad Request"))
	case g.Last != "":
		e.answer(m, s.shownAs(s.newest(g.Last)))
	case g.Next == "" && g.Batch == 0:
		var one *stored
		if at, found := s.find(g.Sequence); found {
			one = s.messages[at]
		}
		e.answer(m, s.shownAs(one))
	default:
		e.getBatch(s, g, m)
	}
}

// getBatch answers with a page of messages, and with what ends it.
func (e *Engine) getBatch(s *stream, g get, asked message) {
	const limit = 64 << 20 // what a server has in flight for a client
	if g.Next == "" {
		g.Next = ">"
	}
	if g.Bytes == 0 {
		g.Bytes = limit
	}
	pending, before, next, sent := s.count(g.Next, g.Sequence), uint64(0), g.Sequence, 0
	for n := range max(1, g.Batch) {
		m := s.next(g.Next, next)
		if m == nil && n > 0 {
			break
		}
		if m == nil {
			e.answer(asked, s.shownAs(nil))
			return
		}
		shown := s.shownAs(m)
		if g.Batch > 0 {
			pending--
			shown.header = withField(shown.header, "Nats-Num-Pending", strconv.Itoa(pending))
			shown.header = withField(shown.header, "Nats-Last-Sequence", strconv.FormatUint(before, 10))
		}
		e.answer(asked, shown)
		before, next = m.sequence, m.sequence+1
		if sent += len(m.subject) + len(m.header) + len(m.body); sent >= g.Bytes {
			break
		}
	}
	if g.Batch > 0 {
		e.answer(asked, status(204, "EOB", "Nats-Num-Pending", strconv.Itoa(pending), "Nats-Last-Sequence", strconv.FormatUint(before, 10)))
	}
}

// shownAs returns a message as a request sees it, or the status that there is none.
func (s *stream) shownAs(m *stored) message {
	if m == nil {
		return status(404, "Message Not Found")
	}
	header := withField(m.header, "Nats-Stream", s.config.Name)
	header = withField(header, "Nats-Subject", m.subject)
	header = withField(header, "Nats-Sequence", strconv.FormatUint(m.sequence, 10))
	header = withField(header, "Nats-Time-Stamp", m.at.UTC().Format(time.RFC3339Nano))
	return message{header: header, body: m.body}
}
