package simulator

import (
	"strings"
)

// known is the set of the keys of messages that the program has recorded.
type known map[string]bool

// known returns the keys in the history and in the state. That a mail cannot be fetched,
// and its number, record only that it is in the mailbox.
func (w *World) known() known {
	h, err := w.readHistory()
	if err != nil {
		w.violate("state", "history: %v", err)
	}
	s, _ := w.state()
	k := known{}
	for _, m := range s.Inbox {
		k[m.Key+`"`] = true
	}
	for _, l := range s.Lines {
		h.lines = append(h.lines, line{l})
	}
	for _, l := range h.lines {
		if l.Key != "" && l.Kind != "fetch" && l.Kind != "number" {
			k[l.Key+`"`] = true
		}
	}
	return k
}

// has reports whether a copy of a mail is known under one of its keys.
func (k known) has(l *incomingMail) bool {
	for key := range k {
		if l.hasKey(key) {
			return true
		}
	}
	return false
}

// hasKey reports whether a key, with its quote, is or was one of a mail.
func (l *incomingMail) hasKey(key string) bool {
	for _, end := range l.keys {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}
