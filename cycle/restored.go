package cycle

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/cycle/view"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// The evidence that the lost part of a restored state has answered a mail.
const (
	shownByFlag  = "the mailbox shows it as answered, \\Answered"
	shownBySent  = "an answer is in the folder for sent mail"
	shownByLater = "a later mail continues the thread of an answer"
)

// readUnanswered is the reason of the gate state.GateRestored.
const readUnanswered = "it was read before the state was restored from a backup, and no answer to it was found: it may have run already"

// sentTries is how many polls in a row may fail to read the folder for sent mail. Then the other
// evidence must do.
const sentTries = 3

// restoredMail decides about the mail of a restored mailbox (docs/protocol.md, "After a restore"):
// one that was answered is done, one that is unread and unanswered runs, and for any other a person
// decides.
type restoredMail struct {
	ctx     context.Context // of the scan
	session *mail.Session
	filter  trust.Filter
	restore state.Restore

	read    bool // answers was read
	answers mail.Answers
	failed  error // the last error of the folder for sent mail

	later map[string]bool   // Message-IDs that a later mail shows as answered
	taken []restoredVerdict // without evidence so far
}

// restoredVerdict is a mail that was taken, and the event instead if a later mail shows that it was
// answered.
type restoredVerdict struct {
	messageID string
	instead   state.Settled
}

// lookBack prepares the decisions about a restored mailbox. It does nothing in normal times.
func (ad *admission) lookBack(ctx context.Context, session *mail.Session, filter trust.Filter) {
	if ad.state.Cursor.Restored == nil {
		return
	}
	r := &restoredMail{ctx: ctx, session: session, filter: filter, later: map[string]bool{}}
	if ad.state.Restore != nil {
		r.restore = *ad.state.Restore
	}
	ad.restored = r
}

// readSent reads the folder for sent mail once. After sentTries failures the answers are empty, and
// name the failure.
func (r *restoredMail) readSent(handle string) error {
	if r.read {
		return nil
	}
	var err error
	r.answers, err = r.session.Answered(r.ctx, handle, r.restore.Made)
	if err != nil && (r.ctx.Err() != nil || r.mayRetry()) {
		r.failed = err
		return err
	}
	if err != nil {
		r.answers.Missing = err.Error()
	}
	r.read = true
	return nil
}

// mayRetry reports whether a failure of the folder for sent mail leaves the decisions to the next
// poll.
func (r *restoredMail) mayRetry() bool { return r.restore.Tries+1 < sentTries }

// readSentFirst reads the folder for sent mail before the first report about the restore, so that
// the evidence also settles waiting rows. Later, only mail that could not be fetched is left.
func (ad *admission) readSentFirst() error {
	if ad.restored == nil || ad.restored.restore.Told > 0 {
		return nil
	}
	return ad.restored.readSent(ad.handle)
}

// endLookBack adds the evidence that a scan has found.
func (ad *admission) endLookBack(obs *observation, events map[string]state.Event) {
	if ad.restored == nil {
		return
	}
	if err := ad.settleLater(events); err != nil {
		obs.fail(state.Mail, err)
	}
	obs.events = append(obs.events, ad.restored.events(ad.store, ad.state)...)
}

// events returns what became of the evidence: whether the folder could be read, and the waiting
// rows that it settles.
func (r *restoredMail) events(st *store.Store, s state.State) (events []state.Event) {
	if r.failed != nil && r.ctx.Err() == nil {
		events = append(events, state.SentRead{Failed: r.failed.Error()})
	}
	if r.read {
		events = append(events, state.SentRead{Missing: r.answers.Missing})
	}
	for _, row := range s.HeldRows() {
		if row.Source != state.Mail || row.IsFollowUp() {
			continue
		}
		if evidence := r.evidenceFor(messageIDIn(st, row.Payload)); evidence != "" {
			events = append(events, state.Settled{Key: row.Key, Evidence: evidence})
		}
	}
	for _, e := range s.HeldEffects() {
		if e.Channel == state.ByMail && r.answers.Sent(messageIDIn(st, e.File)) {
			events = append(events, state.FoundSent{ID: e.ID})
		}
	}
	return events
}

// evidenceFor returns the evidence that the mail with this Message-ID was answered, or "".
func (r *restoredMail) evidenceFor(messageID string) string {
	switch {
	case messageID == "":
		return ""
	case r.answers.To(messageID):
		return shownBySent
	case r.later[message.Lower(messageID)]:
		return shownByLater
	}
	return ""
}

// messageIDIn returns the Message-ID of a mail that we keep, or "".
func messageIDIn(st *store.Store, file string) string {
	f, err := st.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, err := message.CutHeader(bufio.NewReader(f))
	if err != nil {
		return ""
	}
	return message.ParseHeader(raw).MessageID
}

// takeRestored takes a mail while the mailbox is a restored one.
func (ad *admission) takeRestored(m *mail.Message, raw io.Reader) (state.Event, error) {
	r := ad.restored
	if m.Gate == "" {
		for _, id := range r.filter.AnsweredIn(m.Header) {
			r.later[message.Lower(id)] = true
		}
	}
	passes := m.Gate == "" || m.Ask || m.Doubtful
	if !m.Before || !passes || ad.hasAccepted(m) {
		return ad.takeJudged(m, raw)
	}
	if err := r.readSent(ad.handle); err != nil {
		return nil, err
	}
	settled := state.Settled{Key: m.Key, From: m.Header.From, Digest: m.Digest, UID: m.UID, At: m.At, Evidence: r.evidenceFor(m.Header.MessageID)}
	if settled.Evidence == "" && m.Answered && !m.CallsOthers {
		settled.Evidence = shownByFlag
	}
	if settled.Evidence != "" {
		return settled, nil
	}
	settled.Evidence = shownByLater
	r.taken = append(r.taken, restoredVerdict{message.Lower(m.Header.MessageID), settled})
	if m.Seen {
		return ad.rejectRead(m, raw)
	}
	return ad.takeJudged(m, raw)
}

// rejectRead keeps a read mail of a restored mailbox in quarantine. The operator is not asked about
// one without a proof: they may have been asked before.
func (ad *admission) rejectRead(m *mail.Message, raw io.Reader) (state.Event, error) {
	if m.Gate == "" {
		m.Gate, m.Reason = state.GateRestored, readUnanswered
	}
	unkept, err := ad.quarantine.Keep(verdictOn(m), m.Digest, keptSize(m), raw)
	e := rejection(m, unkept, false)
	e.Doubtful = false
	return e, err
}

// hasAccepted reports whether the state has accepted a mail or a copy of it.
func (ad *admission) hasAccepted(m *mail.Message) bool {
	return slices.ContainsFunc([]string{m.Key, m.Digest, m.OldDigest}, ad.state.Accepts)
}

// settleLater replaces the events of mails that a later mail of the same scan shows as answered.
func (ad *admission) settleLater(events map[string]state.Event) error {
	for _, v := range ad.restored.taken {
		if v.messageID == "" || !ad.restored.later[v.messageID] {
			continue
		}
		for _, kept := range []string{mailPayload(v.instead.Key), quarantine.Dir(v.instead.Key)} {
			if err := ad.files.Remove(kept); err != nil {
				return err
			}
		}
		events[v.instead.Key] = v.instead
	}
	return nil
}

// mostRestored is how many messages the report about a restore lists.
const mostRestored = 50

// restoredReport returns the notice about a restore: what was answered since the backup, what runs,
// and what waits for the operator. A peer that passes the notice on does not learn subjects.
func (r *renderer) restoredReport(s state.State, byMail bool) string {
	re := s.Restore
	if re == nil {
		return "My state was restored from a backup.\n" // the row outlived the record
	}
	var b strings.Builder
	rows, err := view.RestoredRows(r.store, s)
	if err != nil {
		r.logf("the report about the restore is incomplete: %v", err) // it must not hold up the commit
	}
	fmt.Fprintf(&b, "My state was restored on %s from the backup %s,\nmade on %s. It does not know what I did in between, so I looked\nfor traces in the mailbox.\n\n",
		utcMinute(re.At), re.From, utcMinute(re.Made))
	fmt.Fprintf(&b, "answered in between, nothing to do:  %d\nunread and unanswered, run now:      %d\nunknown, run only if you say so:     %d\n", re.Settled, re.Run, len(rows))
	if re.Blind != "" {
		fmt.Fprintf(&b, "\nI could not read the folder for sent mail in full (%s),\nso more messages than necessary may be unknown.\n", re.Blind)
	}
	if re.Unkept > 0 {
		fmt.Fprintf(&b, "\nThe quarantine had no room for more unknown mails: %d. They are in the mailbox,\nmarked read. Send me again the ones that I should run.\n", re.Unkept)
	}
	if failing := s.FailingMails(); len(failing) > 0 {
		fmt.Fprintf(&b, "\nMails that the server does not deliver at present: %d. I will write again\nif some of them are unknown.\n", len(failing))
	}
	if len(rows) > 0 {
		b.WriteString("\nThese were read or accepted, and I found no answer. Each may have run already:\n\n")
	}
	for _, row := range rows[:min(len(rows), mostRestored)] {
		b.WriteString(restoredRow(row, byMail))
	}
	if more := len(rows) - mostRestored; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	undelivered := len(s.HeldEffects())
	if undelivered > 0 {
		fmt.Fprintf(&b, "\nAnswers that were ready, and may have been sent already: %d.\n", undelivered)
	}
	if len(rows)+undelivered > 0 {
		b.WriteString("\nOn the agent's machine:\n" +
			"  agentstateloop inbox list                shows the messages with a plain number\n" +
			"  agentstateloop inbox retry 17            lets one of them run\n" +
			"  agentstateloop inbox list --quarantined  shows those with a q before the number\n" +
			"  agentstateloop inbox release q3          lets one of them run\n" +
			"  agentstateloop inbox drop 17             drops either kind\n" +
			"  agentstateloop outbox list               shows the answers\n" +
			"  agentstateloop outbox retry 5            sends one of them\n")
	}
	return b.String()
}

// restoredRow returns the line of a message in the report about a restore.
func restoredRow(row view.InboxRow, withSubject bool) string {
	number, at, subject := row.Key, "", ""
	if row.Number != nil {
		number = *row.Number
	}
	if row.At != nil {
		at = utcMinute(*row.At)
	}
	if withSubject {
		subject = "  " + trust.Excerpt(row.Subject, 80)
	}
	return strings.TrimRight(fmt.Sprintf("%s  %s  %s  %s%s", number, row.Source, at, row.From, subject), " ") + "\n"
}

// utcMinute formats a time for a person in any zone.
func utcMinute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
