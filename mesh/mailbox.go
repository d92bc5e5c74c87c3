package mesh

import (
	"net/http"
	"time"
)

// waiters is one mailbox's long polls: changed is closed when they should look
// again.
type waiters struct {
	changed chan struct{}
	polls   int
}

// getMailbox shows a mailbox and consumes nothing. With ?wait= an empty one is
// answered when something arrives, HALT or GO is said, or the wait is over
// (MaxWait at most).
func (s *Server) getMailbox(w http.ResponseWriter, r *http.Request, _ string) (int, any, error) {
	var wait time.Duration
	if text := r.URL.Query().Get("wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, nil, refuse(http.StatusBadRequest, "wait is no duration like 50s")
		}
		wait = min(d, MaxWait)
		// The connection's timeout was meant for a call that answers at once;
		// a handler without a connection has none.
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()

	handle := r.PathValue("handle")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markSeen(handle)
	halted := s.ledger.halted
	over := wait == 0
	for {
		box := Mailbox{Halted: s.ledger.halted, Messages: s.ledger.oldest(handle)}
		if over || len(box.Messages) > 0 || box.Halted != halted {
			if box.Messages == nil {
				box.Messages = []Message{}
			}
			return http.StatusOK, box, nil
		}
		changed := s.subscribe(handle)
		s.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-s.done:
			over = true
		case <-r.Context().Done():
			over = true
		}
		s.mu.Lock()
		s.unsubscribe(handle, changed)
	}
}

// deleteMessage acknowledges: 204, also when it is gone already.
func (s *Server) deleteMessage(_ http.ResponseWriter, r *http.Request, _ string) (int, any, error) {
	s.mu.Lock()
	if p, ok := s.ledger.find(r.PathValue("handle"), r.PathValue("id")); ok {
		s.change(record{Ack: &p})
	}
	s.mu.Unlock()
	// An acknowledgement that a power cut takes back brings a repeat, which
	// its key tells: not worth an fsync.
	return http.StatusNoContent, nil, s.persist(false)
}

// subscribe gives what is closed at the next change of a mailbox. Every await
// needs its leave.
func (s *Server) subscribe(handle string) chan struct{} {
	w := s.waiters[handle]
	if w == nil {
		w = &waiters{changed: make(chan struct{})}
		s.waiters[handle] = w
	}
	w.polls++
	return w.changed
}

func (s *Server) unsubscribe(handle string, changed chan struct{}) {
	w := s.waiters[handle]
	if w == nil || w.changed != changed { // the change took it away
		return
	}
	if w.polls--; w.polls == 0 {
		delete(s.waiters, handle)
	}
}

// notify lets the long polls of a mailbox look again.
func (s *Server) notify(handle string) {
	if w := s.waiters[handle]; w != nil {
		close(w.changed)
		delete(s.waiters, handle)
	}
}
