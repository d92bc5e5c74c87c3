package state

import "time"

// Cursor is how far the mailbox has been read (DESIGN 7). It moves by UID and
// never by the unread flag, since a person or another agent may have opened
// the mail. The zero Cursor asks for a baseline.
type Cursor struct {
	// Mailbox hashes host, username and mailbox name; another one baselines anew.
	Mailbox  string `json:"mailbox,omitempty"`
	Validity uint32 `json:"uidvalidity,omitempty"`

	// Next is the first UID not looked at yet. Owed are UIDs below it that are
	// still to be taken: unread ones of the baseline, and those whose fetch
	// failed. Tries counts the failures of a UID that broke alone.
	Next  uint32         `json:"next,omitempty"`
	Owed  []uint32       `json:"owed,omitempty"`
	Tries map[uint32]int `json:"tries,omitempty"`

	// Complete is when a look last reached the end of the mailbox. When the
	// server renumbers (UIDVALIDITY), mail is taken anew from the day before.
	Complete time.Time `json:"complete,omitzero"`
}

// Looked: a source was read to its end. Mail brings its new cursor.
type Looked struct {
	Source Source
	Cursor *Cursor
}

// apply notes a good look, from which silence may be believed.
func (e Looked) apply(m *machine) {
	if e.Source != Mail {
		return
	}
	m.mailRead = true
	m.moveCursor(e.Cursor)
}

// LookFailed: a source could not be read, or not to its end. What was read
// before counts: mail brings the cursor of it.
type LookFailed struct {
	Source Source
	Cursor *Cursor
}

// apply keeps what was read before the failure.
func (e LookFailed) apply(m *machine) {
	if e.Source == Mail {
		m.moveCursor(e.Cursor)
	}
}

func (m *machine) moveCursor(c *Cursor) {
	if c == nil {
		return
	}
	m.Cursor = *c
	m.Cursor.Complete = earlier(c.Complete.UTC(), m.now)
}

// Unreadable: a mail that failed three times alone is given up (DESIGN 7).
type Unreadable struct {
	Key string
}

// apply ends a mail that could not be fetched, three times alone: told,
// passed, never silent.
func (e Unreadable) apply(m *machine) {
	if m.seen(e.Key) {
		return
	}
	m.remember(e.Key)
	m.line(Line{Kind: LineEnded, Key: e.Key, Source: Mail, What: string(Errored), Reason: "could not be fetched three times in a row"})
	m.notice("A mail could not be fetched three times in a row and was passed over (" + e.Key + "). Read it in your mailbox; if it was for me, send it again.")
}
