package state

import (
	"cmp"
	"slices"
	"time"
)

// A state that was restored from a backup is older than the mailbox and the mesh (docs/protocol.md,
// "After a restore"). What ran after the backup was made is unknown to it. Nothing may run or leave
// twice, so whatever may have run waits for a person.

// VersionHeld is the format of a state that an older program would misread: it has a held row, mail
// of a restored mailbox, or was moved. That program refuses it by its number.
const VersionHeld = 2

// versionOf returns the version that a program must know to read the state.
func (s State) versionOf() int {
	held := func(msg Message) bool { return msg.Held }
	if s.Moved != nil || s.Cursor.Restored != nil || slices.ContainsFunc(s.Inbox, held) {
		return VersionHeld
	}
	return Version
}

// RestoredMail is the mail that was in the mailbox at the first scan after a restore.
type RestoredMail struct {
	Below uint32 `json:"below,omitempty"` // UIDNEXT at that scan; 0 before it
}

// Contains reports whether a mail belongs to the restored mailbox.
func (r *RestoredMail) Contains(uid uint32) bool {
	return r != nil && (r.Below == 0 || uid < r.Below)
}

// Restored reports that the state was restored from the backup From, which was made at Made. Seed is
// a new one: ids that the lost part of the state minted must not be minted again.
type Restored struct {
	Made time.Time
	From string
	Seed string
}

// apply holds everything that may have run or left since the backup was made.
func (e Restored) apply(m *machine) {
	m.Moved = nil
	m.Seed = cmp.Or(e.Seed, m.Seed)
	m.Place = placeOf(m.Seed)
	m.Cursor.Restored = &RestoredMail{}
	m.line(Line{Kind: LineRecovery, What: WordRestored, Reason: "from " + e.From + ", made at " + utc(e.Made)})
}

// Moved says where the agent is now, since when, and which archive has its state. As an event it
// reports the move; At is then ignored.
type Moved struct {
	At      time.Time `json:"at"`
	To      string    `json:"to"` // a host
	Archive string    `json:"archive,omitempty"`
}

// apply marks the state as moved. Every later commit is refused, except the one of Unmoved or
// Restored.
func (e Moved) apply(m *machine) {
	e.At = m.now
	m.Moved = &e
	m.line(Line{Kind: LineRecovery, What: WordMoved, To: e.To, Reason: e.Archive})
}

// Redacted implements [Redactable].
func (e Moved) Redacted(redact func(string) string) Event {
	e.Archive = redact(e.Archive)
	return e
}

// Unmoved reports that a move was taken back.
type Unmoved struct{}

// apply lets the agent work here again.
func (Unmoved) apply(m *machine) {
	if m.Moved == nil {
		return
	}
	m.line(Line{Kind: LineRecovery, What: WordMovedBack, To: m.Moved.To})
	m.Moved = nil
	m.Place = placeOf(m.Seed + m.now.String()) // the other copy of the state has the same seed
}

// clampTimes repairs the time of a move.
func (i *Identity) clampTimes(c clamp) {
	if i.Moved != nil {
		moved := *i.Moved
		c.past(&moved.At)
		i.Moved = &moved
	}
}

// placeOf returns the name of the place where a state with this seed lives. Our mails carry it.
func placeOf(seed string) string { return hashHex(seed + "|place")[:16] }
