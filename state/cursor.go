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
