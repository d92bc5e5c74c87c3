package simulator

import (
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"agentstateloop/state"
)

// This file plays people and their provider, who change the mailbox.

// asPerson opens the mailbox as a mail program does.
func (w *World) asPerson(do func(*imapclient.Client) error) error {
	c, err := imapclient.DialInsecure(w.mail.IMAP, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Login(address, password).Wait(); err != nil {
		return err
	}
	if _, err := c.Select("INBOX", nil).Wait(); err != nil {
		return err
	}
	return do(c)
}

// readMail plays a person who reads a mail.
func (w *World) readMail(n int) error {
	w.record.mu.Lock()
	var uid uint32
	if len(w.record.incoming) > 0 {
		l := w.record.incoming[n%len(w.record.incoming)]
		l.read = true
		if len(l.uids) > 0 {
			uid = l.uids[0]
		}
	}
	w.record.mu.Unlock()
	if uid == 0 {
		return nil
	}
	return w.asPerson(func(c *imapclient.Client) error {
		return c.Store(imap.UIDSetNum(imap.UID(uid)), &imap.StoreFlags{Op: imap.StoreFlagsAdd, Flags: []imap.Flag{imap.FlagSeen}}, nil).Close()
	})
}

// flags returns the UIDs of all mails, each with whether it is read.
func (w *World) flags() (map[uint32]bool, error) {
	seen := map[uint32]bool{}
	err := w.asPerson(func(c *imapclient.Client) error {
		all, err := c.Fetch(imap.UIDSet{imap.UIDRange{Start: 1, Stop: 0}}, &imap.FetchOptions{UID: true, Flags: true}).Collect()
		for _, m := range all {
			seen[uint32(m.UID)] = false
			for _, f := range m.Flags {
				if f == imap.FlagSeen {
					seen[uint32(m.UID)] = true
				}
			}
		}
		return err
	})
	return seen, err
}

// renumber gives the mailbox another UIDVALIDITY and the mails other UIDs.
func (w *World) renumber() error {
	seen, err := w.flags()
	if err != nil {
		return err
	}
	if err := w.mail.Renumber(); err != nil {
		return err
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	err = w.asPerson(func(c *imapclient.Client) error {
		status, err := c.Status("INBOX", &imap.StatusOptions{UIDValidity: true}).Wait()
		if err == nil {
			w.record.validity = status.UIDValidity
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := len(w.record.incoming) - 1; i >= 0; i-- { // in reverse order
		l := w.record.incoming[i]
		if l.gone {
			l.uids = nil
		}
		for j, uid := range l.uids {
			var flags []imap.Flag
			if seen[uid] {
				flags = append(flags, imap.FlagSeen)
			}
			if l.uids[j], err = w.mail.Append(l.raw, l.at, flags...); err != nil {
				return err
			}
			w.record.addKey(l, l.uids[j])
		}
	}
	return nil
}

// expunge plays a person who deletes a mail for good.
func (w *World) expunge(n int) error {
	known := w.known()
	w.record.mu.Lock()
	var set imap.UIDSet
	if len(w.record.incoming) > 0 {
		l := w.record.incoming[n%len(w.record.incoming)]
		for _, uid := range l.uids {
			set.AddNum(imap.UID(uid))
		}
		if !l.gone {
			l.gone, l.lost = true, !l.isAmong(known)
		}
	}
	w.record.mu.Unlock()
	if len(set) == 0 {
		return nil
	}
	w.count.happened("a mail was deleted for good")
	return w.asPerson(func(c *imapclient.Client) error {
		if err := c.Store(set, &imap.StoreFlags{Op: imap.StoreFlagsAdd, Flags: []imap.Flag{imap.FlagDeleted}}, nil).Close(); err != nil {
			return err
		}
		return c.Expunge().Close()
	})
}

// returned are the kinds of bounces. Only the server of the recipient can know the whole
// Message-ID.
//
//	real      a report (RFC 3464) with the header of a mail that we sent
//	header    the same without the part for machines
//	invented  a report about a mail that we never sent
//	altered   a report with a Message-ID of ours in which the MAC is another
//	other     a report about a mail of another agent
var returned = []string{"real", "header", "invented", "altered", "other"}

// returnMail puts a report about a mail of ours into the mailbox.
func (w *World) returnMail(s Step) error {
	id := w.record.someMail(s.N, true)
	if id == "" {
		return nil
	}
	l := w.record.newMail("returned "+s.Kind, ignored)
	w.record.mu.Lock()
	to := w.record.mails[id].to
	w.record.mu.Unlock()
	switch s.Kind {
	case "invented":
		id = "reply." + strings.Repeat("z", 26) + "." + strings.Repeat("a", 32) + "." + handle + "@example.org"
	case "altered":
		id = alterMAC(id)
	case "other":
		id = strings.Replace(id, handle, "goulard31200", 1)
	}
	l.about = id
	l.real = s.Kind == "real" || s.Kind == "header"
	w.count.happened("a mail came back: " + s.Kind)
	report := "--r\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.com\n\nFinal-Recipient: rfc822; " + to +
		"\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 no such user\n\n"
	if s.Kind == "header" {
		report = ""
	}
	return w.deliver(l, 1, "Return-Path: <>\nFrom: Mail Delivery System <MAILER-DAEMON@mx.example.org>\nTo: "+address+
		"\nSubject: Undelivered Mail Returned to Sender\nAuto-Submitted: auto-replied\n"+l.stamp()+
		"MIME-Version: 1.0\nContent-Type: multipart/report; report-type=delivery-status; boundary=r\n\n--r\nContent-Type: text/plain\n\n"+
		"I could not deliver your mail. "+l.marker+" do=answer\n\n"+report+"--r\nContent-Type: text/rfc822-headers\n\nFrom: "+address+
		"\nTo: "+to+"\nMessage-ID: <"+id+">\nSubject: of a mail\n\n--r--\n")
}

// macLetters is the length of the MAC in a Message-ID of ours, before the handle. Its first half
// proves that the mail is ours.
const macLetters = 32

// alterMAC changes the first letter of the MAC.
func alterMAC(id string) string {
	at := strings.LastIndex(id, "."+handle) - macLetters
	if at < 0 {
		return "x" + id
	}
	other := byte('a')
	if id[at] == other {
		other = 'b'
	}
	return id[:at] + string(other) + id[at+1:]
}

// checkReturned checks that a bounced mail is recorded as lost, and that a bounce without a mail of
// ours has no effect. checkPrompts checks that no bounce causes a turn.
func (w *World) checkReturned(h history) {
	for _, l := range w.record.incoming {
		// The cursor may have passed it, and a sweep or a new baseline finds only the operator's mail.
		passed := l.passed || w.record.cursorHurt || h.recovered
		switch {
		case l.about == "":
		case !l.real:
			w.checkNotLost(h, l)
		case h.any(func(line line) bool { return line.is("bounce", state.WordLost) && effectOf(l.about) == line.ID }):
			w.count.happened("a mail that came back was recorded as lost")
		case !passed && !l.gone:
			w.violate("returned", "%s shows that %s was lost, and the history does not", l, l.about)
		}
	}
}

// checkNotLost checks that no line and no mail names the subject of a forged bounce.
func (w *World) checkNotLost(h history, l *incomingMail) {
	effect, _, _ := strings.Cut(l.about, ".goulard")
	for _, line := range h.lines {
		if line.Kind == "bounce" && strings.HasSuffix(line.Key, l.keys[0]) || strings.Contains(line.ID+line.Reason, effect) {
			w.violate("returned", "%s is about a mail that we did not send, and the history has %s", l, line)
		}
	}
	for _, o := range w.record.mails {
		if o.id != l.about && strings.Contains(o.text, effect) {
			w.violate("returned", "%s is about a mail that we did not send, and %s tells of it", l, o.id)
		}
	}
}
