package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/order"
)

// Reading is how far the sources have been read, and what they must be told about it.
type Reading struct {
	Cursor Cursor   `json:"cursor,omitzero"`
	ToFlag ToFlag   `json:"to_flag,omitzero"` // mail to mark \Seen
	ToAck  []string `json:"to_ack,omitempty"` // acknowledgements for the mesh: ids, or over NATS SENDER/ID
	Thread Thread   `json:"thread,omitzero"`  // the operator's newest conversation

	Restore *Restore `json:"restore,omitempty"` // the last one

	// Seen maps the keys and digests of accepted items to the Unix second of the last time; prune
	// forgets old ones.
	Seen map[string]int64 `json:"seen,omitempty" members:"again"`
}

// clone copies all but Seen.
func (r Reading) clone() Reading {
	r.Cursor = r.Cursor.Clone()
	r.ToFlag.UIDs = slices.Clone(r.ToFlag.UIDs)
	r.ToFlag.Answered = slices.Clone(r.ToFlag.Answered)
	r.ToAck = slices.Clone(r.ToAck)
	r.Restore = r.Restore.clone()
	return r
}

// clampTimes repairs all but Seen.
func (r *Reading) clampTimes(c clamp) {
	c.past(&r.Cursor.Complete, &r.Cursor.Swept)
	r.Restore.clampTimes(c)
	r.Cursor.clampFailures(c)
}

// clampFailures repairs the times of the mails that cannot be fetched. A scan returns them
// unrepaired.
func (c *Cursor) clampFailures(to clamp) {
	for uid, f := range c.Failures {
		to.past(&f.Since, &f.After)
		to.deadline(&f.Next, f.pause())
		c.Failures[uid] = f
	}
}

// Cursor is how far the mailbox has been read (docs/protocol.md, "Keys and the cursor"). It moves by
// UID and never by the unread flag, because a person or another agent may have opened the mail. The
// zero Cursor asks for a baseline.
type Cursor struct {
	// Mailbox is a hash of host, username and mailbox name. A different hash asks for a new
	// baseline.
	Mailbox  string `json:"mailbox,omitempty"`
	Validity uint32 `json:"uidvalidity,omitempty"`

	// Next is the first UID that was not read yet. Owed are the UIDs below it that are still to be
	// read, ascending: unseen mails of the baseline, and mails whose fetch failed. Large are the
	// UIDs in Owed that are fetched apart from the others.
	Next  uint32   `json:"next,omitempty"`
	Owed  []uint32 `json:"owed,omitempty"`
	Large []uint32 `json:"large,omitempty"`

	// Unseen are UIDs below Next that no answer of the server has shown yet. They are passed when
	// another session asks for exactly these UIDs and does not get them either. They are ascending,
	// and Owed does not contain them.
	Unseen UIDRanges `json:"unseen,omitempty"`

	// Failures are the failed fetches, by UID. A failure at or above Next means the first mail that
	// exists from there on.
	Failures map[uint32]Failure `json:"failures,omitempty"`
	OldTries map[uint32]int     `json:"tries,omitempty"` // of an older program; see Clone

	// Reports are mails not read yet that may be delivery reports about our mail.
	Reports []UnreadReport `json:"reports,omitempty"`

	// Complete is when the mailbox was last read to its end. When the server renumbers the mailbox
	// (UIDVALIDITY), mail is read again from the day before Complete.
	Complete time.Time `json:"complete,omitzero"`

	// Reread is set by a session that has looked for the mail of a renumbered mailbox. The next
	// session looks once more, because a missed mail would be passed.
	Reread *Reread `json:"reread,omitempty"`

	// Swept is when the operator's unread mail was last compared with the state. Zero asks for a
	// sweep.
	Swept time.Time `json:"swept,omitzero"`

	// Restored is set after a restore, until the mail that was in the mailbox then has been read.
	Restored *RestoredMail `json:"restored,omitempty"`
}

// Reread says which mail of a renumbered mailbox is read again. This is all mail from the day
// before All on. If Unread is set, it is also the unread mail from the day before UnreadSince on,
// or of any age if UnreadSince is zero.
type Reread struct {
	All         time.Time `json:"all"`
	Unread      bool      `json:"unread,omitempty"`
	UnreadSince time.Time `json:"unread_since,omitzero"`
}

// UnreadReport is a mail that may be a delivery report. Likely is set if its header names a mail of
// ours. Tries counts the failed fetches.
type UnreadReport struct {
	UID    uint32 `json:"uid"`
	Likely bool   `json:"likely,omitempty"`
	Tries  int    `json:"tries,omitempty"`
}

// Clone returns a copy that shares nothing with c. It moves the counts of an older program from
// OldTries to Failures.
func (c Cursor) Clone() Cursor {
	c.Owed = slices.Clone(c.Owed)
	c.Large = slices.Clone(c.Large)
	c.Unseen = slices.Clone(c.Unseen)
	c.Reports = slices.Clone(c.Reports)
	if c.Reread != nil {
		again := *c.Reread
		c.Reread = &again
	}
	if c.Restored != nil {
		restored := *c.Restored
		c.Restored = &restored
	}
	c.Failures = maps.Clone(c.Failures)
	for uid, tries := range c.OldTries {
		if _, newer := c.Failures[uid]; newer {
			continue
		}
		if c.Failures == nil {
			c.Failures = map[uint32]Failure{}
		}
		c.Failures[uid] = Failure{Tries: tries}
	}
	c.OldTries = nil
	return c
}

// Key returns the key of the mail that has this UID.
func (c Cursor) Key(uid uint32) string {
	return fmt.Sprintf("mail:%s.%d.%d", c.Mailbox, c.Validity, uid)
}

// UID returns the UID of the mail under key. ok is false if the key belongs to another mailbox, or to
// this one before it was renumbered.
func (c Cursor) UID(key string) (uid uint32, ok bool) {
	number, ok := strings.CutPrefix(key, strings.TrimSuffix(c.Key(0), "0"))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), err == nil && n > 0
}

// SourceRead reports that a source was read to its end. For mail, Cursor is the new cursor, and
// Large are the large mails of the cursor that the scan began with.
type SourceRead struct {
	Source Source
	Cursor *Cursor
	Large  []uint32
}

// apply moves the cursor of the mailbox and lets silence count, unless this step restores the state:
// a scan that began before the restore has not looked for the mail since the backup.
func (e SourceRead) apply(m *machine) {
	if e.Source != Mail || m.restores {
		return
	}
	m.mailRead = true
	m.moveCursor(e.Cursor, e.Large)
}

// SourceFailed reports that a source could not be read to its end. The items read before the
// failure count: for mail, Cursor covers them. Large is as in SourceRead.
type SourceFailed struct {
	Source Source
	Cursor *Cursor
	Large  []uint32
}

// apply keeps the progress before the failure.
func (e SourceFailed) apply(m *machine) {
	if e.Source == Mail {
		m.moveCursor(e.Cursor, e.Large)
	}
}

// Redacted implements [Redactable].
func (e SourceRead) Redacted(redact func(string) string) Event {
	e.Cursor = e.Cursor.redacted(redact)
	return e
}

// Redacted implements [Redactable].
func (e SourceFailed) Redacted(redact func(string) string) Event {
	e.Cursor = e.Cursor.redacted(redact)
	return e
}

// redacted returns the cursor, which may be nil, with redact applied to the text of servers.
func (c *Cursor) redacted(redact func(string) string) *Cursor {
	if c == nil || len(c.Failures) == 0 {
		return c
	}
	copied := c.Clone()
	for uid, f := range copied.Failures {
		f.Reason = redact(f.Reason)
		copied.Failures[uid] = f
	}
	return &copied
}

// moveCursor replaces the cursor by that of a scan, unless the scan began before a restore.
func (m *machine) moveCursor(c *Cursor, large []uint32) {
	if c == nil || m.restores {
		return
	}
	next := c.Clone()
	m.keepLarge(&next, large)
	m.Cursor = next
	m.Cursor.Complete = earlier(c.Complete.UTC(), m.now)
	m.Cursor.clampFailures(clamp{m.now})
	m.forgetDropped()
	m.tellFailing()
}

// SweepDue reports whether a sweep of the mailbox is due: there was no sweep on this local day, or
// since the state was rebuilt.
func (r Reading) SweepDue(p Policy, now time.Time) bool {
	loc := p.Location
	if loc == nil {
		loc = time.UTC
	}
	const day = "2006-01-02"
	return r.Cursor.Swept.IsZero() || r.Cursor.Swept.In(loc).Format(day) != now.In(loc).Format(day)
}

// Swept reports that a sweep found the mails under Keys. Looked is how many unread mails it looked
// at.
type Swept struct {
	Keys   []string
	Looked int
}

// apply records the mails among Keys that came in now.
func (e Swept) apply(m *machine) {
	for _, l := range slices.Clone(m.Lines) {
		if slices.Contains(e.Keys, l.Key) && l.arrives() {
			m.line(Line{Kind: LineSweep, Key: l.Key, Reason: fmt.Sprintf("missed before, found by the sweep among %d unread mails", e.Looked)})
		}
	}
}

func (Swept) rank() (int, time.Time) { return rankEnd, time.Time{} }

// arrives reports whether the line records the arrival of its item: accepted, or rejected for the
// first time.
func (l Line) arrives() bool {
	return l.Kind == LineMessage || l.Kind == LineControl || l.Kind == LineGate && l.What != WordCopy || l.AnswersOperatorQuestion()
}

// maxUIDRanges is the maximum number of ranges in UIDRanges. It keeps the state small, and a
// command that names all of them short.
const maxUIDRanges = 200

// UIDRange is the UIDs from First to Last, both included.
type UIDRange struct {
	First uint32 `json:"first"`
	Last  uint32 `json:"last"`
}

// UIDRanges is a set of UIDs: ascending ranges that do not overlap or touch.
type UIDRanges []UIDRange

// Count returns how many UIDs the set has.
func (s UIDRanges) Count() (n uint64) {
	for _, r := range s {
		n += uint64(r.Last-r.First) + 1
	}
	return n
}

// Contains reports whether uid is in the set.
func (s UIDRanges) Contains(uid uint32) bool {
	_, found := slices.BinarySearchFunc(s, uid, func(r UIDRange, uid uint32) int {
		switch {
		case r.Last < uid:
			return -1
		case r.First > uid:
			return 1
		}
		return 0
	})
	return found
}

// With returns the set with the UIDs of added. It does not change either set.
func (s UIDRanges) With(added ...UIDRange) UIDRanges {
	all := slices.Concat(s, added)
	order.Sort(all, func(a, b UIDRange) int { return cmp.Compare(a.First, b.First) })
	var union UIDRanges
	for _, r := range all {
		if r.First == 0 || r.Last < r.First {
			continue
		}
		last := len(union) - 1
		if last >= 0 && uint64(r.First) <= uint64(union[last].Last)+1 {
			union[last].Last = max(union[last].Last, r.Last)
			continue
		}
		union = append(union, r)
	}
	return union
}

// Without returns the set without the UIDs of removed. It does not change either set.
func (s UIDRanges) Without(removed ...UIDRange) UIDRanges {
	gaps := UIDRanges(nil).With(removed...)
	var rest UIDRanges
	for _, r := range s {
		for len(gaps) > 0 && gaps[0].Last < r.First {
			gaps = gaps[1:]
		}
		first := uint64(r.First)
		for _, gap := range gaps {
			if gap.First > r.Last {
				break
			}
			if uint64(gap.First) > first {
				rest = append(rest, UIDRange{uint32(first), gap.First - 1})
			}
			first = max(first, uint64(gap.Last)+1)
		}
		if first <= uint64(r.Last) {
			rest = append(rest, UIDRange{uint32(first), r.Last})
		}
	}
	return rest
}

// Bounded returns a set of at most maxUIDRanges ranges. If s has more, it joins the ranges that are
// closest together, with the UIDs between them.
func (s UIDRanges) Bounded() UIDRanges {
	if len(s) <= maxUIDRanges {
		return s
	}
	var gaps []uint32
	for i := range s[1:] {
		gaps = append(gaps, s[i+1].First-s[i].Last)
	}
	order.Sort(gaps, func(a, b uint32) int { return cmp.Compare(b, a) })
	narrowest, kept := gaps[maxUIDRanges-2], 0 // of the gaps that stay
	joined := UIDRanges{s[0]}
	for _, r := range s[1:] {
		last := &joined[len(joined)-1]
		if r.First-last.Last >= narrowest && kept < maxUIDRanges-1 {
			joined, kept = append(joined, r), kept+1
			continue
		}
		last.Last = r.Last
	}
	return joined
}
