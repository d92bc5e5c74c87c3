package mesh

import (
	"net/http"
	"time"
)

const (
	// maxLongPolls limits the long polls of a handle. An agent has two: one from its listener
	// and one from a poll that stays on.
	maxLongPolls = 4

	// maxUnprovenPolls limits the long polls of all unproven callers together. They choose
	// their handles, and each long poll takes a connection.
	maxUnprovenPolls = 1_000

	// maxCallerPolls limits the long polls of a token, over all mailboxes. maxAllPolls limits
	// those of the whole mesh.
	maxCallerPolls = 16
	maxAllPolls    = 1_024

	longPollPause = 5 * time.Second // how long a refused caller should wait
)

// waiters are the long polls of one mailbox. changed is closed when they should
// look again.
type waiters struct {
	changed chan struct{}
	polls   int
}

// getMailbox answers with the content of a mailbox and removes no message. With ?wait=, it
// answers for an empty mailbox when a message arrives, HALT changes or the wait ends. The wait
// is at most MaxWait. A handle may hold maxLongPolls long polls at a time; a further call is
// answered at once, without any loss. The mesh refuses long polls that would take too much of
// its memory.
func (s *Server) getMailbox(w http.ResponseWriter, r *http.Request, caller string) (int, any, error) {
	var wait time.Duration
	if text := r.URL.Query().Get("wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, nil, refuse(http.StatusBadRequest, "wait is not a duration: use one like 50s")
		}
		wait = min(d, MaxWait)
		// The connection's own timeout is for calls that answer at once. The
		// error does not matter: a handler without a connection has no timeout.
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()

	s.blobs.sweep()
	handle := r.PathValue("handle")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markSeen(handle)
	halted := s.ledger.halted
	answerNow := wait == 0 || !s.mayWait(handle)
	if !answerNow {
		if err := s.beginPolling(handle, caller); err != nil {
			return 0, nil, err
		}
		defer s.endPolling(handle, caller)
	}
	for {
		mailbox := Mailbox{Halted: s.ledger.halted, Messages: s.ledger.oldest(handle)}
		if answerNow || len(mailbox.Messages) > 0 || mailbox.Halted != halted {
			if mailbox.Messages == nil {
				mailbox.Messages = []Message{}
			}
			return http.StatusOK, mailbox, nil
		}
		changed := s.subscribe(handle)
		s.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			answerNow = true
		case <-s.done:
			answerNow = true
		case <-r.Context().Done():
			answerNow = true
		}
		s.mu.Lock()
		s.unsubscribe(handle, changed)
	}
}

// mayWait reports whether another long poll of a mailbox may wait. The caller holds mu.
func (s *Server) mayWait(handle string) bool { return s.polling[handle] < maxLongPolls }

// beginPolling counts a long poll of a mailbox. It refuses the poll if the token or the mesh
// has too many. All unproven callers count as one. The calling function holds mu.
func (s *Server) beginPolling(handle, caller string) error {
	limit, scope := maxCallerPolls, "for this token"
	if caller == "" {
		limit, scope = maxUnprovenPolls, "for callers without a token"
	}
	if s.pollingAll >= maxAllPolls {
		limit, scope = maxAllPolls, "in total"
	} else if s.pollingBy[caller] < limit {
		s.polling[handle]++
		s.pollingBy[caller]++
		s.pollingAll++
		return nil
	}
	r := refuse(http.StatusTooManyRequests, "too many long polls: the limit is %d %s", limit, scope)
	r.after = longPollPause
	return r
}

// endPolling undoes beginPolling. The caller holds mu.
func (s *Server) endPolling(handle, caller string) {
	s.pollingAll--
	if s.polling[handle]--; s.polling[handle] == 0 {
		delete(s.polling, handle)
	}
	if s.pollingBy[caller]--; s.pollingBy[caller] == 0 {
		delete(s.pollingBy, caller)
	}
}

// deleteMessage acknowledges a message. It answers 204, also if the message is already gone.
func (s *Server) deleteMessage(_ http.ResponseWriter, r *http.Request, _ string) (int, any, error) {
	s.mu.Lock()
	if h, ok := s.ledger.find(r.PathValue("handle"), r.PathValue("id")); ok {
		p := h.postKey()
		s.change(record{Ack: &p})
		s.blobs.release(h.Message)
	}
	s.mu.Unlock()
	// If a power cut undoes an acknowledgement, the agent reads the message again and
	// recognizes it by its key. That does not justify an fsync.
	return http.StatusNoContent, nil, s.persist(false)
}

// subscribe returns a channel that is closed at the next change of a mailbox.
// Every subscribe needs an unsubscribe.
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
	if w == nil || w.changed != changed { // notify removed it
		return
	}
	if w.polls--; w.polls == 0 {
		delete(s.waiters, handle)
	}
}

// notify makes the long polls of a mailbox look again.
func (s *Server) notify(handle string) {
	if w := s.waiters[handle]; w != nil {
		close(w.changed)
		delete(s.waiters, handle)
	}
}
