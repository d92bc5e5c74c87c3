package simulator

import (
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"agentstateloop/mail/message"
)

// sentFolder is the folder for copies of sent mail, in stories whose agent makes them.
const sentFolder = "Sent"

// checkCopies checks that each mail of ours has one copy in the folder for sent mail, and none
// more, and that a challenge has none. A loss of the state may cost a copy.
func (w *World) checkCopies(h history) {
	if !w.copies {
		return
	}
	copies := map[string]int{}
	err := w.asPerson(func(c *imapclient.Client) error {
		box, err := c.Select(sentFolder, nil).Wait()
		if err != nil || box.NumMessages == 0 {
			return err
		}
		all, err := c.Fetch(imap.SeqSet{{Start: 1, Stop: 0}}, &imap.FetchOptions{BodySection: []*imap.FetchItemBodySection{{Peek: true}}}).Collect()
		w.record.mu.Lock()
		defer w.record.mu.Unlock()
		for _, m := range all {
			raw := m.BodySection[0].Bytes
			id := strings.Trim(message.ParseHeader(raw).MessageID, "<>")
			if id == "" { // the server keeps an APPEND that broke off, as no real one does
				continue
			}
			copies[id]++
			sent := w.record.mails[id]
			switch {
			case sent == nil:
				w.violate("copies", "%s was filed, and never sent", id)
			case sha256.Sum256(raw) != sent.sum:
				w.violate("copies", "%s was filed with other bytes than it was sent with", id)
			}
		}
		return err
	})
	if err != nil {
		w.violate("copies", "the folder cannot be read: %v", err)
		return
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	for _, id := range sortedKeys(w.record.mails) {
		o := w.record.mails[id]
		n := copies[id]
		delivered := func(what string) bool {
			return slices.ContainsFunc(h.lines, func(l line) bool { return l.Kind == "delivery" && l.What == what && l.ID == effectOf(id) })
		}
		unsure := !delivered("sent") || delivered("not filed") || // its process died before the answer, or its bytes are gone
			w.record.struckAny() || h.says("recovery", "", "") || h.undeliverable("") || w.clock.wasWrong()
		switch {
		case o.kind == "challenge" && n > 0:
			w.violate("copies", "the challenge %s was filed", id)
		case n > 1:
			w.violate("copies", "%s was filed %d times", id, n)
		case o.kind != "challenge" && n == 0 && !unsure:
			w.violate("copies", "%s was sent, and never filed", id)
		case n == 1:
			w.count.happened("a sent mail was filed")
		}
	}
}
