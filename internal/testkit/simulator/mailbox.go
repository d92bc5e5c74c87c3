package simulator

import (
	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// This file plays what people and their provider do to the mailbox.

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

// validity returns the UIDVALIDITY of the mailbox.
func (w *World) validity() (v uint32, err error) {
	err = w.asPerson(func(c *imapclient.Client) error {
		status, err := c.Status("INBOX", &imap.StatusOptions{UIDValidity: true}).Wait()
		if err == nil {
			v = status.UIDValidity
		}
		return err
	})
	return v, err
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
	validity, err := w.validity()
	if err != nil {
		return err
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.record.validity = validity
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
			l.gone, l.lost = true, !known.has(l)
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
