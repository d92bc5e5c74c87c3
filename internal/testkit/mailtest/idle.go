package mailtest

import (
	"time"

	"github.com/emersion/go-imap/v2/imapserver"
)

// Idle reports news from the moment IDLE is accepted, as real servers do. The Idle of the
// library reports only news that comes once it waits. It would report mail from just before at
// the end of the IDLE.
func (s *session) Idle(w *imapserver.UpdateWriter, stop <-chan struct{}) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := s.Poll(w, true); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
	}
}
