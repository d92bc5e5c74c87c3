package mail

import (
	"bufio"
	"bytes"

	"agentstateloop/mail/message"

	"github.com/emersion/go-imap/v2"
)

// This file takes mails whose header came empty. A server that cannot parse a header may send
// an empty one, and a mail may begin with the empty line that ends its header. Anybody can send
// such a mail, so it must not count as withheld by the server.

// noteHeadless records a mail whose header came empty. The mail is owed until the end of this
// scan.
func (sc *scanner) noteHeadless(h head) {
	sc.owe(h.uid)
	sc.passUpTo(h.uid)
	sc.headless = append(sc.headless, h)
}

// takeHeadless takes the mails whose header came empty, and judges them by their beginning. It
// requests each mail alone, so that one that breaks the connection does not hold up the others.
func (sc *scanner) takeHeadless() error {
	for ; len(sc.headless) > 0; sc.headless = sc.headless[1:] {
		if sc.full() {
			return errLimit
		}
		h := sc.headless[0]
		began, err := sc.beginning(h.uid)
		switch {
		case err != nil && serverRefused(err):
			sc.fail(h.uid, h.at, reasonOf(err))
		case err != nil:
			if sc.mayBlameMail(err) {
				sc.fail(h.uid, h.at, reasonOf(err))
			}
			return err
		case len(began) == 0:
			sc.fail(h.uid, h.at, "the server sent no header")
		default:
			h.broken, h.raw = false, began
			sc.classify(&h)
			h.raw = nil
			if err := sc.take([]head{h}); err != nil {
				return err
			}
		}
	}
	return nil
}

// beginning returns the beginning of the mail uid, up to the first empty line, or nil if the
// server does not show it.
func (sc *scanner) beginning(uid uint32) (header []byte, err error) {
	section := &imap.FetchItemBodySection{Peek: true, Partial: &imap.SectionPartial{Size: message.MaxHeader}}
	_, err = sc.heads(uidSet([]uint32{uid}), message.MaxHeader, section, func(h *head) {
		if h.uid == uid && !h.broken {
			header, _ = message.CutHeader(bufio.NewReader(bytes.NewReader(h.raw))) // reading from memory fails only at the end
		}
	})
	return header, err
}
