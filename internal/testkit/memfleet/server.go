// Package memfleet is the servers of one agent on several hosts, in memory. Its clients keep the
// promises of fleet.Conn, by a table that runs against both, with the faults that a hook and the
// methods of Server cause. Nothing in it runs by itself, or waits.
package memfleet

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"agentstateloop/fleet"
)

// Server holds the head, the history, the files and the wishes of one agent. It may be used
// concurrently.
type Server struct {
	Now func() time.Time // the clock of the server

	// Hook makes a call by calling do. A hook that does not call do loses the request, one that
	// returns ErrLost after do loses the answer, and one that keeps do, and calls it during a later
	// call, delivers the request late. nil calls do once. A client repeats a call that returns
	// ErrLost, as fleet.Conn does, except for OfferHead.
	Hook func(c Call, do func() error) error

	mu     sync.Mutex
	stored map[string][]message // by subject, the last one last
	writes []uint64             // for each write, the number of the last head or wish after it
}

// Call is a request of a client.
type Call struct {
	Host  string // whose client it is
	Name  string // the method of fleet.Conn
	After uint64 // of OfferHead
	Block uint64 // of PutBlock, and the first one of GetBlocks
	Lag   *int   // a hook may set it: the call reads the server as it was so many writes ago
}

// Errors that a hook may return.
var (
	// ErrLost means that no answer came. fleet.Unsure reports it.
	ErrLost error = &fleet.Error{Server: "memory", Lost: true, Err: errors.New("no answer")}
	// ErrDown means that no server can be reached. The request was not sent.
	ErrDown error = &fleet.Error{Err: errors.New("no server is reachable")}
)

// message is one message on a subject.
type message struct {
	write    int    // the number of its write
	sequence uint64 // of a head or a wish: its number in their bucket
	at       time.Time
	body     []byte
	signed   bool
}

// The subjects. Those of blocks and chunks end in a number.
const (
	head = "head"
	wish = "wish"
)

// versions is how many heads and wishes are kept, so that a read may lag and the server may forget.
const versions = 64

// Host returns the client of a host.
func (s *Server) Host(name string) *Client { return &Client{server: s, host: name} }

// Forget removes the last n messages that were stored, as a loss of power does that the servers do
// not survive. The next heads get the revisions of the removed ones.
func (s *Server) Forget(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = s.writes[:max(0, len(s.writes)-n)]
	for subject := range s.stored {
		s.stored[subject] = s.seen(subject, 0)
	}
}

// Forge stores a message without the signature of the agent. The subject is head, wish, hist.N or
// file.SUM.N.
func (s *Server) Forge(subject string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(subject, body).signed = false
}

// Remove removes the messages of a subject, as an administrator does.
func (s *Server) Remove(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, subject)
}

// seen returns the messages of a subject that a server has which lags by so many writes.
func (s *Server) seen(subject string, lag int) []message {
	all := s.stored[subject]
	n := slices.IndexFunc(all, func(m message) bool { return m.write > len(s.writes)-lag })
	if n < 0 {
		return all
	}
	return all[:n]
}

// last returns the last message of a subject, or nil.
func (s *Server) last(subject string, lag int) *message {
	all := s.seen(subject, lag)
	if len(all) == 0 {
		return nil
	}
	return &all[len(all)-1]
}

// sequence returns the number of the last message on a subject, or 0.
func (s *Server) sequence(subject string) uint64 {
	if m := s.last(subject, 0); m != nil {
		return m.sequence
	}
	return 0
}

// put stores a message.
func (s *Server) put(subject string, body []byte) *message {
	if s.stored == nil {
		s.stored = map[string][]message{}
	}
	sequence, kept := uint64(0), 1
	if len(s.writes) > 0 {
		sequence = s.writes[len(s.writes)-1]
	}
	if subject == head || subject == wish {
		sequence, kept = sequence+1, versions
	}
	s.writes = append(s.writes, sequence)
	all := append(s.stored[subject], message{len(s.writes), max(sequence, 1), s.Now(), bytes.Clone(body), true})
	all = all[max(0, len(all)-kept):]
	s.stored[subject] = all
	return &all[len(all)-1]
}

// offer stores a message if the last one on its subject is after.
func (s *Server) offer(subject string, after uint64, body []byte) (uint64, error) {
	if last := s.sequence(subject); last != after {
		return 0, &fleet.Refused{Last: last}
	}
	return s.put(subject, body).sequence, nil
}
