package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/order"
)

// Limits on the fetches of a failing mail.
const (
	firstRefetch = time.Minute
	maxRefetch   = 6 * time.Hour

	tellAfter   = 3              // failures until the operator hears of it
	tellAgain   = 24 * time.Hour // after the first failure, the operator hears of it again
	listedAtAll = 20             // keys in one notice
)

// Failure is a mail whose fetch fails (docs/protocol.md, "Keys and the cursor").
type Failure struct {
	Tries  int       `json:"tries"`
	Since  time.Time `json:"since,omitzero"`   // the first failure
	Next   time.Time `json:"next,omitzero"`    // time of the next try
	Reason string    `json:"reason,omitempty"` // of the last failure
	Told   Telling   `json:"told,omitempty"`

	// After is a time before which the mail cannot have come, or zero if unknown.
	After time.Time `json:"after,omitzero"`

	// Missed is set if the last session did not show the mail.
	Missed bool `json:"missed,omitempty"`
}

// Telling is how much the operator has heard about a mail that cannot be fetched.
type Telling int

// The stages of Telling. Each is reached once.
const (
	Untold    Telling = iota
	ToldFirst         // after the third failure
	ToldLater         // after a day of failures
)

// Again returns the failure after one more try, which failed at now. Each pause is twice as long as
// the one before, from a minute up to six hours.
func (f Failure) Again(now time.Time, reason string) Failure {
	if f.Since.IsZero() {
		f.Since = now.UTC()
	}
	f.Tries++
	f.Next = now.UTC().Add(f.pause())
	f.Reason, f.Missed = reason, false
	return f
}

// pause returns the time from the last failure to the next try.
func (f Failure) pause() time.Duration {
	pause := firstRefetch
	for n := 1; n < f.Tries && pause < maxRefetch; n++ {
		pause *= 2
	}
	return min(pause, maxRefetch)
}

// Due reports whether the mail may be tried again at now. A poll may come a little early, because
// cron does.
func (f Failure) Due(now time.Time) bool { return !now.Before(f.Next.Add(-dueSlack)) }

// FailingMail is a mail that cannot be fetched.
type FailingMail struct {
	Key string
	Failure
}

// FailingMails returns the mails that cannot be fetched, by UID.
func (r Reading) FailingMails() []FailingMail {
	var failing []FailingMail
	for _, uid := range r.Cursor.Owed {
		if f, ok := r.Cursor.Failures[uid]; ok {
			failing = append(failing, FailingMail{r.Cursor.Key(uid), f})
		}
	}
	return failing
}

// retriedMails returns the failing mails that are fetched again at their times. It returns nil
// while they wait for the credential of the mailbox.
func (s State) retriedMails(p Policy) []FailingMail {
	if !p.HasMail || s.Fails(CredentialIMAP) {
		return nil
	}
	return s.FailingMails()
}

// FailingMail returns the mail with this key that cannot be fetched.
func (r Reading) FailingMail(key string) (FailingMail, bool) {
	failing := r.FailingMails()
	i := slices.IndexFunc(failing, func(f FailingMail) bool { return f.Key == key })
	if i < 0 {
		return FailingMail{}, false
	}
	return failing[i], true
}

// forgetUnfetched removes the mail under key from the owed mails, if it is failing or large.
func (r *Reading) forgetUnfetched(key string) {
	r.Cursor.Owed = slices.DeleteFunc(r.Cursor.Owed, func(uid uint32) bool {
		_, failing := r.Cursor.Failures[uid]
		if !failing && !slices.Contains(r.Cursor.Large, uid) || r.Cursor.Key(uid) != key {
			return false
		}
		delete(r.Cursor.Failures, uid)
		r.Cursor.Large = slices.DeleteFunc(r.Cursor.Large, func(large uint32) bool { return large == uid })
		return true
	})
}

// forgetDropped removes the failing mails that were dropped, or came in by another way, since the
// scan began.
func (r *Reading) forgetDropped() {
	for _, f := range r.FailingMails() {
		if _, known := r.Seen[f.Key]; known {
			r.forgetUnfetched(f.Key)
		}
	}
}

// tellFailing tells the operator about mails that cannot be fetched, after the third failure and
// again after a day. One notice covers all of them.
func (m *machine) tellFailing() {
	var first, later []FailingMail
	for _, uid := range m.Cursor.Owed {
		f, failing := m.Cursor.Failures[uid]
		var what Word
		switch {
		case !failing:
		case f.Told < ToldFirst && f.Tries >= tellAfter:
			f.Told, what = ToldFirst, WordFailing
			first = append(first, FailingMail{m.Cursor.Key(uid), f})
		case f.Told == ToldFirst && m.now.Sub(f.Since) >= tellAgain:
			f.Told, what = ToldLater, WordStillFailing
			later = append(later, FailingMail{m.Cursor.Key(uid), f})
		}
		if what != "" {
			m.Cursor.Failures[uid] = f
			m.line(Line{Kind: LineFetch, Key: m.Cursor.Key(uid), What: what, Reason: f.Reason})
		}
	}
	if len(first) > 0 {
		m.notice("Your mail server lists mail that it does not deliver to me:\n\n" + listFailing(first) +
			"\nI will keep trying, with pauses of up to six hours, as long as it is in the mailbox. Other mail is not affected. " + failingHint)
	}
	if len(later) > 0 {
		m.notice("Your mail server has not delivered the following mail to me for a day:\n\n" + listFailing(later) +
			"\nI will keep trying and tell you when it arrives. " + failingHint)
	}
}

const failingHint = "If it is for me and urgent, send it again. `agentstateloop inbox drop KEY` ends the retries."

// listFailing returns a line for each mail.
func listFailing(failing []FailingMail) string {
	var b strings.Builder
	for _, f := range failing[:min(len(failing), listedAtAll)] {
		b.WriteString(fmt.Sprintf("%s, failing since %s, %d tries: %s\n", f.Key, f.Since.UTC().Format("2006-01-02 15:04Z"), f.Tries, cmp.Or(f.Reason, "no reason known")))
	}
	if more := len(failing) - listedAtAll; more > 0 {
		b.WriteString(fmt.Sprintf("and %d more: see `agentstateloop inbox list`\n", more))
	}
	return b.String()
}

// FetchEnded reports that a failing mail is not owed any more. The server showed it at last, unless
// it is Gone from the mailbox, or its key is meaningless because the mailbox is Another one or was
// renumbered.
type FetchEnded struct {
	Key           string
	Told          Telling
	Gone, Another bool
}

// apply tells the operator, if they have heard of the failures.
func (e FetchEnded) apply(m *machine) {
	if e.Told == Untold {
		return
	}
	became := e.became(m)
	if became == "" {
		return
	}
	m.line(Line{Kind: LineFetch, Key: e.Key, What: WordEnded, Reason: became})
	m.notice("The mail that I could not fetch (" + e.Key + ") " + became + ".")
}

// became returns in words how the mail ended in this step, or "" if it ended before.
func (e FetchEnded) became(m *machine) string {
	for _, l := range m.Lines {
		switch {
		case l.Key != e.Key || !l.arrives():
		case l.Kind == LineGate:
			return "has arrived at last, but the gate " + l.Gate + " has rejected it: see `agentstateloop inbox list --quarantined`"
		default:
			return "has arrived"
		}
	}
	_, known := m.Seen[e.Key]
	switch {
	case known:
		return ""
	case e.Another:
		return "is not tried any more under this key: the mailbox was renumbered or replaced. If the mail is in it, I will find it again"
	case e.Gone:
		return "is not in the mailbox any more, so I have stopped trying"
	}
	return "has arrived at last, but is not for me"
}

func (FetchEnded) rank() (int, time.Time) { return rankEnd, time.Time{} }

// applyFetchLine restores how much the operator has heard.
func (r *Reading) applyFetchLine(l Line) {
	if l.What == WordEnded {
		r.forgetUnfetched(l.Key)
		return
	}
	for uid, f := range r.Cursor.Failures {
		if r.Cursor.Key(uid) != l.Key {
			continue
		}
		f.Told = ToldFirst
		if l.What == WordStillFailing {
			f.Told = ToldLater
		}
		r.Cursor.Failures[uid] = f
	}
}

// Large mail is fetched apart from the scans (docs/design.md, "Large mail").

// LargeDue returns the UIDs of the large mails to fetch now: first those not tried yet, then those
// whose next try is due, longest waiting first.
func (c Cursor) LargeDue(now time.Time) []uint32 {
	due := slices.DeleteFunc(slices.Clone(c.Large), func(uid uint32) bool {
		f, failing := c.Failures[uid]
		return failing && !f.Due(now)
	})
	order.Stable(due, func(a, b uint32) int { return c.Failures[a].Next.Compare(c.Failures[b].Next) })
	return due
}

// LargeMails returns the keys of the large mails that are being fetched or come next. A mail whose
// fetch failed is in FailingMails.
func (r Reading) LargeMails() []string {
	var keys []string
	for _, uid := range r.Cursor.Large {
		if _, failing := r.Cursor.Failures[uid]; !failing {
			keys = append(keys, r.Cursor.Key(uid))
		}
	}
	return keys
}

// Owes reports whether uid is still to be read.
func (c Cursor) Owes(uid uint32) bool {
	_, found := slices.BinarySearch(c.Owed, uid)
	return found
}

// Settle removes uid from all lists of mail that is still to be read.
func (c *Cursor) Settle(uid uint32) {
	is := func(u uint32) bool { return u == uid }
	c.Owed = slices.DeleteFunc(c.Owed, is)
	c.Large = slices.DeleteFunc(c.Large, is)
	delete(c.Failures, uid)
}

// sameMailbox reports whether a UID names the same mail in both cursors.
func (c Cursor) sameMailbox(other Cursor) bool {
	return c.Mailbox == other.Mailbox && c.Validity == other.Validity
}

// LargeFetched reports the result of fetching one large mail. Cursor is about this mail alone. It
// still owes the mail, with its failure; or it has the mail in Unseen, because no answer has shown
// it; or it has dropped the mail, because it came or is not for us. A mail that came has its own
// event in the same step.
type LargeFetched struct {
	UID    uint32
	Cursor Cursor
}

// apply merges the result into the cursor, which a scan may have moved meanwhile. A UID of another
// or a renumbered mailbox is meaningless.
func (e LargeFetched) apply(m *machine) {
	if !m.Cursor.sameMailbox(e.Cursor) {
		m.foreign = true
		return
	}
	if !m.Cursor.Owes(e.UID) {
		return // dropped meanwhile
	}
	f, fails := e.Cursor.Failures[e.UID]
	switch {
	case e.Cursor.Owes(e.UID) && fails:
		f.Told = max(f.Told, m.Cursor.Failures[e.UID].Told)
		if m.Cursor.Failures == nil {
			m.Cursor.Failures = map[uint32]Failure{}
		}
		m.Cursor.Failures[e.UID] = f
		m.tellFailing()
	case e.Cursor.Owes(e.UID):
		// It waits for a proof of its sender, without a failure.
	default:
		m.Cursor.Settle(e.UID)
	}
	if e.Cursor.Unseen.Contains(e.UID) {
		m.Cursor.Unseen = m.Cursor.Unseen.With(UIDRange{First: e.UID, Last: e.UID}).Bounded()
	}
}

// Redacted implements [Redactable].
func (e LargeFetched) Redacted(redact func(string) string) Event {
	e.Cursor = *e.Cursor.redacted(redact)
	return e
}

// keepLarge merges the large fetches since a scan began into the scan's cursor c. was are the large
// mails that the scan began with. A mail settled since then is not owed again, and a large mail has
// the failure of its last fetch.
func (r *Reading) keepLarge(c *Cursor, was []uint32) {
	if !c.sameMailbox(r.Cursor) {
		return
	}
	for _, uid := range was {
		f, fails := r.Cursor.Failures[uid]
		switch {
		case !r.Cursor.Owes(uid):
			c.Settle(uid)
		case fails && c.Owes(uid):
			if c.Failures == nil {
				c.Failures = map[uint32]Failure{}
			}
			c.Failures[uid] = f
		}
		if r.Cursor.Unseen.Contains(uid) {
			c.Unseen = c.Unseen.With(UIDRange{First: uid, Last: uid}).Bounded()
		}
	}
}

// largeUnderWay reports whether a large mail is due or on its way. A mail that waits for its next
// try is not.
func (m *machine) largeUnderWay() bool { return len(m.Cursor.LargeDue(m.now)) > 0 }

// Short numbers by which a person names a message or an effect. A number never changes its meaning:
// each counter only rises, and a history line has each number
// (docs/decisions/0020-ids-and-numbers.md).

// Numbers are the highest numbers given so far. Arrivals counts those of messages in the inbox.
type Numbers struct {
	Quarantined uint64 `json:"quarantined,omitempty"` // of items in quarantine
	Unfetched   uint64 `json:"unfetched,omitempty"`   // of mails that are not fetched yet
	Effects     uint64 `json:"effects,omitempty"`     // of rows of the outbox, and of mails that came back
	HookCalls   uint64 `json:"hook_calls,omitempty"`  // of rows for hooks
}

// unfetchedKeys returns the keys of the mails that are listed but not in the inbox yet: failing
// mails, and large mails on their way.
func (r Reading) unfetchedKeys() []string {
	var keys []string
	for _, f := range r.FailingMails() {
		keys = append(keys, f.Key)
	}
	return append(keys, r.LargeMails()...)
}

// IsUnfetched reports whether the mail with this key is listed but not in the inbox yet.
func (r Reading) IsUnfetched(key string) bool { return slices.Contains(r.unfetchedKeys(), key) }

// numberUnfetched gives a number to each mail that is not fetched yet and lacks one. It forgets the
// numbers of other mails, because history lines have them.
func (m *machine) numberUnfetched() {
	keys := m.unfetchedKeys()
	for _, key := range keys {
		if m.Unfetched[key] > 0 {
			continue
		}
		l := Line{Kind: LineNumber, Key: key, Source: Mail, Number: m.Numbers.Unfetched + 1}
		m.line(l)
		m.applyNumberLine(l)
	}
	if len(m.Unfetched) > len(keys) {
		maps.DeleteFunc(m.Unfetched, func(key string, _ uint64) bool { return !slices.Contains(keys, key) })
	}
}

// applyNumberLine gives a mail that is not fetched yet its number.
func (r *Received) applyNumberLine(l Line) {
	r.Numbers.Unfetched = max(r.Numbers.Unfetched, l.Number)
	if r.Unfetched == nil {
		r.Unfetched = map[string]uint64{}
	}
	r.Unfetched[l.Key] = l.Number
}
