package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A state that was restored from a backup is older than the mailbox and the mesh (docs/protocol.md,
// "After a restore"). It does not know what ran and what left since the backup was made. So whatever
// may have run waits for a person, and the mailbox tells about the mail since then.

// VersionHeld is the format of a state that an older program would misread: it has a held row, mail
// of a restored mailbox, or was moved. That program refuses it by its number.
const VersionHeld = 2

// neededVersion returns the version that a program must know to read the state.
func (s State) neededVersion() int {
	held := func(msg Message) bool { return msg.Held }
	if s.Moved != nil || s.Cursor.Restored != nil || slices.ContainsFunc(s.Inbox, held) {
		return VersionHeld
	}
	return Version
}

// GateRestored is the gate of a mail of a restored mailbox that was read, and that nothing shows to
// be answered. The gate is ours: its sender did nothing wrong.
const GateRestored = "restored"

// The reasons of rows that a restore brought back. heldNote is for the agent that gets such a
// message later.
const (
	SettledReason = "answered since the backup" // of a message that ended; the evidence follows

	HeldReason = "restored from a backup: it may have run already"
	MayBeSent  = "restored from a backup: it may have been sent already"
	// WasRestored is the reason of the turn and the ack that a restore ended. They do not come again by
	// themselves. It is also the text of the notice about a restore; package cycle renders the list.
	WasRestored = "the state was restored from a backup"

	heldNote = "This message comes from a restored backup, so an earlier attempt may have done its work: check before you repeat it."
)

// meshKnows is how long the mesh and its agents surely recognise the id of a message that comes
// again. It is less than seenFor.
const meshKnows = 7 * 24 * time.Hour

// restoreKept is how long the state remembers a restore that is over, for status.
const restoreKept = 30 * 24 * time.Hour

// RestoredMail is the mail that was in the mailbox at the first scan after a restore.
type RestoredMail struct {
	Below uint32 `json:"below,omitempty"` // UIDNEXT at that scan; 0 before it, or if unknown
}

// Contains reports whether the mail with this UID belongs to the restored mailbox.
func (r *RestoredMail) Contains(uid uint32) bool {
	return r != nil && (r.Below == 0 || uid < r.Below)
}

// Restore is the last restore, and what became of the mail of its mailbox.
type Restore struct {
	At      time.Time `json:"at"`
	Made    time.Time `json:"made"` // the backup
	From    string    `json:"from,omitempty"`
	Settled int       `json:"settled,omitempty"` // messages that were answered since the backup
	Run     int       `json:"run,omitempty"`     // mails that came since, and run now
	Unknown int       `json:"unknown,omitempty"` // mails that the gate GateRestored holds back
	Unkept  int       `json:"unkept,omitempty"`  // of these, mails for which the quarantine had no room
	Asked   []string  `json:"asked,omitempty"`   // keys of the items in quarantine whose challenge was closed

	// Blind is why the folder for sent mail did not count, or "". Tries counts the polls that could
	// not read it.
	Blind string `json:"blind,omitempty"`
	Tries int    `json:"tries,omitempty"`

	Told int  `json:"told,omitempty"` // mails to the operator about the restore
	Late int  `json:"late,omitempty"` // unknown mails since the last of these
	Over bool `json:"over,omitempty"` // all mail of the mailbox was read
}

// clone returns a copy of r, which may be nil.
func (r *Restore) clone() *Restore {
	if r == nil {
		return nil
	}
	copied := *r
	return &copied
}

func (r *Restore) clampTimes(c clamp) {
	if r != nil {
		c.past(&r.At, &r.Made)
	}
}

// Restored reports that the state was restored from the backup From, which was made at Made. Seed
// must be random: the lost part of the state has minted ids with the old one.
type Restored struct {
	Made time.Time
	From string
	Seed string
}

// apply holds everything that may have run or left since the backup was made.
func (e Restored) apply(m *machine) {
	m.Seed = cmp.Or(e.Seed, m.Seed)
	m.setPlace(placeOf(m.Seed))
	m.line(Line{Kind: LineRecovery, What: WordRestored, From: e.From, Digest: m.Place, Sent: e.Made.UTC(), Reason: "made " + utc(e.Made)})
	if m.Turn.Status != HeadIdle {
		m.turnLine(WordReaped, WasRestored)
	}
	m.restore(e.Made.UTC(), e.From)
	m.restores = true
	m.holdOutbox()
	m.missPrompts()
	m.withdrawAck(WasRestored)
	m.enter(IDLE, "restored from a backup")
	m.WokenBy, m.Unmailed = "", false
	m.schedule()
}

// restore ends the active turn and holds the rows of the inbox. A wakeup that the agent has planned
// for later stays, because it cannot have run. Open challenges are closed, and the operator's
// answers to questions are messages: their turn may be over.
func (m *machine) restore(made time.Time, from string) {
	m.Moved = nil
	m.Restore = &Restore{At: m.now, Made: made, From: from, Asked: slices.Concat(m.Unasked, m.Doubtful)}
	for _, c := range m.Challenges {
		m.Restore.Asked = append(m.Restore.Asked, c.Key)
	}
	m.Challenges, m.Unasked, m.Doubtful = nil, nil, nil
	m.Expected = slices.DeleteFunc(m.Expected, func(x Expected) bool { return x.Operator && !x.Answered() })
	m.Epoch++
	m.Turn = Head{Status: HeadIdle}
	for i := range m.Inbox {
		row := &m.Inbox[i]
		planned := row.Source == Self && row.Status == Deferred && row.TurnID == ""
		if !planned || !m.now.Before(row.NextRetryAt) {
			row.hold()
		}
	}
	m.Cursor.Restored = &RestoredMail{}
	if m.Cursor.Mailbox == "" && m.Cursor.Complete.IsZero() {
		m.Cursor.Complete = earlier(made, m.now) // a baseline would pass read mail
	}
}

// hold lets a row wait for a person. Its turn gets another id: an answer under the old one may have
// left.
func (msg *Message) hold() {
	msg.Held = true
	msg.Status, msg.NextRetryAt, msg.Reason = Queued, time.Time{}, ""
	msg.TurnID, msg.Epoch, msg.Attempts, msg.Cost, msg.Fresh, msg.Working = "", 0, 0, 0, false, false
	msg.Note = heldNote
}

// retryHeld lets a held row have its turn, because a person wants it.
func (m *machine) retryHeld(row *Message, origin string) {
	row.Held, row.NextRetryAt = false, m.now
	if row.ByItself() {
		m.operatorHeard()
	}
	copied := *row
	m.line(Line{Kind: LineMessage, What: WordRetried, Key: row.Key, Source: row.Source, From: row.From, Message: &copied, Reason: origin})
}

// HeldRows returns the rows of the inbox that a restore holds.
func (r Received) HeldRows() (held []Message) {
	for _, msg := range r.Inbox {
		if msg.Held {
			held = append(held, msg)
		}
	}
	return held
}

// HeldEffects returns the rows that a restore has moved to Undelivered, because they may have been sent.
func (d Deliveries) HeldEffects() (held []Effect) {
	for _, e := range d.Undelivered {
		if e.Reason == MayBeSent {
			held = append(held, e)
		}
	}
	return held
}

// holdOutbox ends the rows of the outbox that may have left since the backup was made. The mesh
// recognises a message that comes again, so a young one stays. A mail with a content is kept in
// Undelivered, where a person decides. Any other mail is worth something only at its time.
func (m *machine) holdOutbox() {
	for _, row := range slices.Clone(m.Outbox) {
		i, _ := m.effectIndex(row.ID)
		switch {
		case row.Channel == ByMesh && m.now.Sub(row.Created) < meshKnows:
			m.Outbox[i].Sending, m.Outbox[i].NotBefore = false, time.Time{}
		case row.Channel == ByMesh, row.Kind.hasContent():
			m.restartSilence(row)
			row.Reason = MayBeSent
			m.endEffect(i, WordUndeliverable, MayBeSent)
			m.keepUndelivered(row, m.now)
		default:
			m.endEffect(i, WordWithdrawn, MayBeSent)
		}
	}
}

// hasContent reports whether a mail of this kind has a content that somebody else wrote.
func (k EffectKind) hasContent() bool {
	return k == Reply || k == Answer || k == Relayed || k == Post
}

// missPrompts records the firings between the backup and the restore as missed. They may have run.
func (m *machine) missPrompts() {
	for _, c := range m.policy.Prompts {
		row := m.timedPrompt(c.Name)
		if row == nil || row.At != c.At || row.Next.IsZero() || m.now.Before(row.Next) {
			continue
		}
		row.AskedBy, row.AskedUntil = "", time.Time{}
		if at := m.newest(m.policy, c, *row, m.now); !at.IsZero() {
			row.noteDone(at)
			m.promptLine(*row, WordMissed, PromptKey(c.Name, at), fmt.Sprintf("it was due at %s, and %s since", m.localTime(at), WasRestored))
		}
		m.planNext(row, c)
	}
}

// applyRestoreLine restores, moves or moves back again.
func (m *machine) applyRestoreLine(l Line) {
	switch l.What {
	case WordRestored:
		m.setPlace(cmp.Or(l.Digest, m.Place))
		m.restore(l.Sent, l.From)
	case WordRestoredRead:
		m.endRestore()
	case WordMoved:
		m.Moved = &Moved{At: l.At, To: l.To, Archive: l.Reason}
	case WordMovedBack:
		m.Moved = nil
		m.setPlace(cmp.Or(l.Digest, m.Place))
	}
}

// Settled reports evidence in the mailbox that the lost part of a restored state has answered a
// message. Key is a held row, or a mail that the state has not seen; the other fields are of such a
// mail.
type Settled struct {
	Key, From, Digest string
	UID               uint32
	At                time.Time
	Evidence          string
}

// apply ends the message without a turn.
func (e Settled) apply(m *machine) {
	m.acknowledgeLater(e.UID, "")
	if row := m.message(e.Key); row != nil {
		if row.Held {
			m.noteSettled()
			m.skip(*row, SettledReason+": "+e.Evidence)
		}
		return
	}
	if m.seen(e.Key) || e.Digest != "" && m.seen(e.Digest) {
		m.noteSeen(e.Key)
		return
	}
	m.noteSeen(e.Key)
	m.noteSeen(e.Digest)
	m.noteSettled()
	m.line(Line{Kind: LineEnded, Key: e.Key, Source: Mail, From: e.From, What: Word(Skipped), Reason: SettledReason + ": " + e.Evidence, Digest: e.Digest})
}

func (e Settled) rank() (int, time.Time) { return rankArrival, e.At }

// FoundSent reports that the folder for sent mail has a mail that a restore moved to Undelivered.
type FoundSent struct{ ID string }

// apply removes the row, because it was sent.
func (e FoundSent) apply(m *machine) {
	i := m.undeliveredIndex(e.ID)
	if i < 0 || m.Undelivered[i].Reason != MayBeSent {
		return
	}
	m.noteReplyEnded(e.ID, WordSent, m.now)
	m.markAnsweredLater(m.Undelivered[i].Answers)
	m.endUndelivered(i, WordSent, "it is in the folder for sent mail")
}

// SentRead reports whether the folder for sent mail could be read after a restore. Missing is why it
// does not count, or counts only in part. Failed is why it could not be read now.
type SentRead struct{ Missing, Failed string }

func (e SentRead) apply(m *machine) {
	if m.Restore == nil || m.Restore.Over {
		return
	}
	if e.Failed != "" {
		m.Restore.Tries++
	}
	m.Restore.Blind = cmp.Or(e.Missing, e.Failed)
}

// Redacted implements [Redactable].
func (e SentRead) Redacted(redact func(string) string) Event {
	e.Missing, e.Failed = redact(e.Missing), redact(e.Failed)
	return e
}

// noteSettled, noteRestoredRun and noteUnknown count the messages of a restore.
func (m *machine) noteSettled() {
	if m.Restore != nil {
		m.Restore.Settled++
	}
}

func (m *machine) noteRestoredRun(uid uint32) {
	if uid != 0 && m.Restore != nil && m.restored.Contains(uid) {
		m.Restore.Run++
	}
}

func (m *machine) noteUnknown(kept bool) {
	if m.Restore == nil {
		return
	}
	m.Restore.Unknown++
	m.Restore.Late++
	if !kept {
		m.Restore.Unkept++
	}
}

// tellRestored tells the operator once the mailbox was read. A mail that its server does not deliver
// does not hold up the report: if it turns out to be unknown, it has a second one.
func (m *machine) tellRestored() {
	r := m.Restore
	if r == nil || r.Over && m.now.Sub(r.At) < restoreKept {
		return
	}
	if r.Over {
		m.Restore = nil
		return
	}
	ended := m.Cursor.Restored == nil || !m.policy.HasMail
	if !ended && (!m.mailRead || m.Cursor.OwesRestored(false)) {
		return
	}
	if r.Told == 0 || ended && r.Late > 0 {
		r.Told, r.Late = r.Told+1, 0
		m.tellOperator(Effect{Thread: m.subject("restored from a backup"), Text: WasRestored})
	}
	if ended {
		m.line(Line{Kind: LineRecovery, What: WordRestoredRead, Reason: fmt.Sprintf("%s answered since the backup, %s run now, %s for you to decide",
			plural(r.Settled, "message"), plural(r.Run, "mail"), plural(r.Unknown+len(m.HeldRows()), "message"))})
		m.endRestore()
	}
}

// endRestore ends the time in which mail may belong to the restored mailbox.
func (m *machine) endRestore() {
	m.Cursor.Restored = nil
	if m.Restore != nil {
		m.Restore.Over = true
	}
}

// OwesRestored reports whether mail of the restored mailbox is still to be read. Mail that cannot be
// fetched for now counts if failing is set.
func (c Cursor) OwesRestored(failing bool) bool {
	waits := func(uid uint32) bool {
		_, fails := c.Failures[uid]
		return (failing || !fails) && c.Restored.Contains(uid)
	}
	return c.Reread != nil || slices.ContainsFunc(c.Owed, waits) || len(c.Unseen) > 0 && c.Restored.Contains(c.Unseen[0].First)
}

// Moved says where the agent is now, since when, and which archive has its state. As an event it
// reports the move, and At is ignored.
type Moved struct {
	At      time.Time `json:"at"`
	To      string    `json:"to"` // a host
	Archive string    `json:"archive,omitempty"`
}

// apply marks the state as moved. Package cycle refuses every later change, except Unmoved, Restored
// and the removal of the crontab lines.
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

// Unmoved reports that the archive of a move was unpacked here. A move that is taken back, or goes to
// another place, is a restore from its archive, because the first machine may have worked.
type Unmoved struct{}

// apply lets the agent work here.
func (Unmoved) apply(m *machine) {
	if m.Moved == nil {
		return
	}
	to := m.Moved.To
	m.Moved = nil
	m.setPlace(placeOf(m.Seed + m.now.String())) // the other copy of the state has the same seed
	m.line(Line{Kind: LineRecovery, What: WordMovedBack, To: to, Digest: m.Place})
}

// MayChange reports whether events may change the state: not after the agent was moved elsewhere.
func (s State) MayChange(events ...Event) bool {
	return s.Moved == nil || len(events) > 0 && !slices.ContainsFunc(events, func(e Event) bool {
		switch e := e.(type) {
		case Unmoved, Restored:
			return false
		case Unscheduled:
			return !e.Removed
		}
		return true
	})
}

// clampTimes repairs the time of a move.
func (i *Identity) clampTimes(c clamp) {
	if i.Moved != nil {
		moved := *i.Moved
		c.past(&moved.At)
		i.Moved = &moved
	}
}

// placeOf returns the name of the place of a state with this seed. Our mails carry it.
func placeOf(seed string) string { return hashHex(seed + "|place")[:16] }
