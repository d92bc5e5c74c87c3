package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// ErrNoEffect means that the outbox and the undelivered effects both lack the row.
var ErrNoEffect = errors.New("not in the outbox")

// ErrBeingSent means that a row cannot be dropped, because it may be leaving now.
var ErrBeingSent = errors.New("it is being sent right now")

// The statuses of a row of the outbox.
const (
	RowWaiting     = "waiting"
	RowHeld        = "held" // by HALT
	RowSending     = "sending"
	RowUndelivered = "undelivered" // given up, and kept
	RowReturned    = "returned"    // accepted by the server, and bounced
	RowLost        = "lost"        // given up, and not kept; only RetryEffect returns it
)

// OutboxRow is one effect that waits, was given up or bounced.
type OutboxRow struct {
	Number   *string          `json:"number"` // 5, or h2 for a call of a hook; null in rows of older versions
	ID       string           `json:"id"`
	Status   string           `json:"status"`
	State    string           `json:"state"` // the status in words
	Kind     state.EffectKind `json:"kind"`
	Channel  state.Channel    `json:"channel"`
	To       string           `json:"to"`
	Subject  string           `json:"subject"`
	TurnID   string           `json:"turn_id"`
	Created  *time.Time       `json:"created"`
	Attempts int              `json:"attempts"` // failed attempts
	Copies   int              `json:"copies"`   // copies that may have arrived
	Reason   string           `json:"reason"`   // of the last failure
	NextTry  *time.Time       `json:"next_try"` // of a row that waits after a failure
	Ended    *time.Time       `json:"ended"`    // when it was given up or bounced
	Told     bool             `json:"told"`     // the operator was notified by mail, or of a bounce in some way
	File     string           `json:"file"`     // the path of its bytes, or ""

	Files []files.ReceivedFile `json:"files"` // files that go to another agent, or are large, with the paths of their copies
}

// Outbox returns the rows that wait, were given up, and bounced, in this order. It takes no
// lock.
func (a *Agent) Outbox() ([]OutboxRow, error) { return a.outbox().rows() }

// OutboxRow returns the row with this number or id. The error wraps ErrNoEffect if the row is
// missing.
func (a *Agent) OutboxRow(id string) (OutboxRow, error) { return a.outbox().row(id) }

// RetryEffect sends a row now, regardless of its pause. It sends a row that was given up
// unchanged: with the same id and the same bytes. It returns the row as it is afterwards, and
// whether it was sent. Otherwise the row waits, was given up, or is left to another process
// that sends. A bounced row cannot be sent again: its bytes are gone.
func (a *Agent) RetryEffect(ctx context.Context, id string) (r OutboxRow, sent bool, err error) {
	return a.outbox().retry(ctx, id)
}

// DropEffect removes a row for good. It returns ErrBeingSent if the row may be leaving now.
func (a *Agent) DropEffect(ctx context.Context, id, reason string) error {
	return a.outbox().drop(ctx, id, reason)
}

// outbox shows the outbox to a person, and changes it for them.
type outbox struct {
	committer
	flusher *flusher
	hooks   *hooks
}

func (a *Agent) outbox() *outbox {
	return &outbox{committer: a.committer(), flusher: a.flusher(), hooks: a.hooks()}
}

// rows is Outbox.
func (o *outbox) rows() ([]OutboxRow, error) {
	s, err := o.store.Read()
	if err != nil {
		return nil, err
	}
	rows := []OutboxRow{}
	for _, e := range s.Outbox {
		r := o.describe(e)
		r.Status = RowWaiting
		switch {
		case e.Sending:
			r.Status = RowSending
		case s.Held(e):
			r.Status = RowHeld
		}
		if at := s.NextTry(e.ID); at.After(o.now()) {
			r.NextTry = &at
		}
		rows = append(rows, r)
	}
	for _, e := range s.HookCalls {
		r := o.describe(e)
		r.Number, r.Status, r.Subject = view.Numeral(view.HookMark, e.Number), RowWaiting, e.Announces.Event
		if e.NotBefore.After(o.now()) {
			r.NextTry = &e.NotBefore
		}
		rows = append(rows, r)
	}
	for _, e := range s.Undelivered {
		r := o.describe(e)
		r.Status, r.Ended, r.Told = RowUndelivered, view.OrNull(e.GivenUp), e.Told == state.ByMail
		rows = append(rows, r)
	}
	for _, lost := range s.Lost {
		rows = append(rows, OutboxRow{
			Number: view.Numeral("", lost.Number), ID: lost.ID, Status: RowReturned, Channel: state.ByMail, To: lost.To, Reason: lost.Reason,
			Ended: view.OrNull(lost.At), Told: !lost.Told.IsZero(), Files: []files.ReceivedFile{},
		})
	}
	return rows, nil
}

func (o *outbox) describe(e state.Effect) OutboxRow {
	r := OutboxRow{
		Number: view.Numeral("", e.Number), ID: e.ID, Kind: e.Kind, Channel: e.Channel, To: e.To, Subject: e.Thread.Subject, TurnID: e.TurnID,
		Created: view.OrNull(e.Created), Attempts: e.Attempts, Copies: e.Copies, Reason: e.Reason,
	}
	if r.Subject == "" {
		r.Subject = view.Beginning(e.Text)
	}
	if e.File != "" {
		r.File = o.store.Path(e.File)
	}
	r.Files = []files.ReceivedFile{}
	for _, f := range e.Files {
		r.Files = append(r.Files, files.InStore(o.store, files.ReceivedFile{Name: f.FileName, Title: f.FileName, Type: f.Type, Size: f.Size}, f.File))
	}
	return r
}

// row is OutboxRow.
func (o *outbox) row(id string) (OutboxRow, error) {
	rows, err := o.rows()
	if err != nil {
		return OutboxRow{}, err
	}
	for _, r := range rows {
		if r.ID == id || r.Number != nil && *r.Number == strings.ToLower(id) {
			return r, nil
		}
	}
	return OutboxRow{}, fmt.Errorf("%q: %w", id, ErrNoEffect)
}

// retry is RetryEffect.
func (o *outbox) retry(ctx context.Context, id string) (r OutboxRow, sent bool, err error) {
	if r, err = o.row(id); err != nil {
		return r, false, err
	}
	id = r.ID
	if r.Status == RowReturned {
		return r, false, fmt.Errorf("%s was accepted by the server and then bounced: its bytes are gone", id)
	}
	if err := o.hasBytes(id); err != nil {
		return r, false, err
	}
	s, err := o.journal.commit(ctx, state.OutboxRetried{ID: id})
	if err != nil {
		return r, false, err
	}
	if r.Channel == state.ByHook {
		err = o.hooks.call(ctx)
	} else {
		err = o.flusher.sendNow(ctx, s)
	}
	if err != nil {
		return r, false, err
	}
	now, err := o.row(id)
	if !errors.Is(err, ErrNoEffect) {
		return now, false, err
	}
	what, reason, err := o.lastDelivery(id)
	if err != nil || what == "sent" {
		return r, err == nil, err
	}
	r.Status, r.Reason = RowLost, cmp.Or(reason, what)
	return r, false, nil
}

// lastDelivery returns the end of a row that has just gone, from the history.
func (o *outbox) lastDelivery(id string) (what, reason string, err error) {
	s, err := o.store.Read() // before the history: a line moves from the state into a file
	if err != nil {
		return "", "", err
	}
	lines := slices.Clone(s.Lines)
	slices.Reverse(lines)
	for l, err := range o.store.Newest(view.EventsRead, state.LineDelivery) {
		if err != nil {
			return "", "", err
		}
		if lines = append(lines, l); l.ID == id {
			break
		}
	}
	i := slices.IndexFunc(lines, func(l state.Line) bool { return l.Kind == state.LineDelivery && l.ID == id })
	if i < 0 {
		return "gone", "", nil
	}
	return string(lines[i].What), lines[i].Reason, nil
}

// hasBytes returns an error if the bytes of a row are missing: the row would be given up again
// at once.
func (o *outbox) hasBytes(id string) error {
	s, err := o.store.Read()
	if err != nil {
		return err
	}
	e, waits := s.Effect(id)
	if !waits {
		e, _ = s.UndeliveredEffect(id)
	}
	f, err := o.store.Open(e.File)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the bytes of %s are missing: %w", id, err)
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// drop is DropEffect.
func (o *outbox) drop(ctx context.Context, id, reason string) error {
	r, err := o.row(id)
	if err != nil {
		return err
	}
	id = r.ID
	if r.Status == RowReturned {
		return fmt.Errorf("%s bounced after it was sent: there is nothing to drop", id)
	}
	drop := func(alone bool) error {
		s, err := o.journal.commit(ctx, state.OutboxDropped{ID: id, Reason: reason, Alone: alone})
		if err == nil && s.Keeps(id) {
			err = fmt.Errorf("%s: %w", id, ErrBeingSent)
		}
		return err
	}
	held, err := withLock(o.store, store.CycleLock, func() error { return drop(true) })
	switch {
	case err != nil || held:
		return err
	case r.Channel == state.ByMesh && r.Status != RowUndelivered:
		return fmt.Errorf("%s: %w", id, ErrBeingSent) // a send by the mesh is not recorded in advance
	}
	return drop(false)
}

// undelivered returns the notice about rows that were given up: the kind, the recipient, the
// server's words and the path of each, but not its text. A peer that passes the notice on does
// not learn subjects or paths.
func (r *renderer) undelivered(s state.State, e state.Effect) string {
	var b strings.Builder
	b.WriteString("I could not deliver the messages below. They are kept, but are not\nsent again automatically.\n")
	for _, id := range e.Tells {
		row, ok := s.UndeliveredEffect(id)
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n  what: %s\n", row.ID, describeEffect(row, e.Channel == state.ByMail))
		if row.TurnID != "" {
			fmt.Fprintf(&b, "  turn: %s\n", row.TurnID)
		}
		fmt.Fprintf(&b, "  to:   %s by %s\n  when: %s\n  why:  %s\n", row.To, row.Channel,
			row.GivenUp.UTC().Format(time.RFC3339), plain.Line(cmp.Or(row.Reason, "it waited too long")))
		if e.Channel == state.ByMail {
			fmt.Fprintf(&b, "  kept: %s\n", r.store.Path(row.File))
		}
	}
	b.WriteString("\nOn the agent's machine:\n" +
		"  agentstateloop outbox list       lists them\n" +
		"  agentstateloop outbox show ID    shows one, with its text\n" +
		"  agentstateloop outbox retry ID   sends it again unchanged\n" +
		"  agentstateloop outbox drop ID    removes it\n")
	return b.String()
}

// describeEffect describes an effect in a few words.
func describeEffect(e state.Effect, withSubject bool) string {
	what := map[state.EffectKind]string{
		state.Reply: "the answer", state.Answer: "the answer to your command", state.Question: "a question", state.OperatorQuestion: "a question to you", state.Post: "a message",
		state.Notice: "a notice", state.Relay: "a notice to pass on", state.Relayed: "a message passed on for a peer",
		state.Alarm: "an alarm", state.Challenge: "the question whether a mail is yours",
	}[e.Kind]
	what = cmp.Or(what, string(e.Kind))
	switch {
	case !withSubject || e.Thread.Subject == "":
		return what
	case e.Kind == state.Reply:
		return fmt.Sprintf("%s to %q", what, plain.Line(e.Thread.Subject))
	}
	return fmt.Sprintf("%s, subject %q", what, plain.Line(e.Thread.Subject))
}

// FromSending is the source of a failure to send mail.
const FromSending state.Source = "sending"

// unsentSource returns the source under which a failure to send is reported.
func unsentSource(c state.Channel) state.Source {
	if c == state.ByMesh {
		return state.Mesh
	}
	return FromSending
}

// failedSend returns the failure in the result of a send. It returns false without a failure,
// and for a failure that has its own place: a denied credential, or a withdrawn row.
func failedSend(e state.Effect, result []state.Event) (SourceFailure, bool) {
	failed, ok := result[0].(state.SendFailed)
	if !ok || failed.Denied || failed.Reason == "" {
		return SourceFailure{}, false
	}
	return SourceFailure{Source: unsentSource(e.Channel), Reason: fmt.Sprintf("%s to %s: %s", e.ID, e.To, failed.Reason)}, true
}

// addUnsent adds the effects that are still unsent when the poll ends, whether or not this poll
// has tried them: mail that no server takes, or each row that waits after a failure.
func (r *Report) addUnsent(s state.State, now time.Time) {
	if f, failing := noMailSent(s, now); failing {
		r.fail([]SourceFailure{f})
	}
	for _, e := range s.Outbox {
		source := unsentSource(e.Channel)
		listed := slices.ContainsFunc(r.Failed, func(f SourceFailure) bool { return f.Source == source })
		if e.Attempts == 0 || e.Denied || s.Held(e) || listed {
			continue
		}
		r.Failed = append(r.Failed, SourceFailure{
			Source: source, Reason: fmt.Sprintf("%s to %s waits: %s%s", e.ID, e.To, e.Reason, nextTryAfter(s.NextTry(e.ID), now)),
		})
	}
}

// noMailSent returns the failure of a server that takes no mail, if a mail waits that HALT does
// not hold.
func noMailSent(s state.State, now time.Time) (SourceFailure, bool) {
	sending := view.SendingStatus(s)
	if sending == nil {
		return SourceFailure{}, false
	}
	return SourceFailure{Source: FromSending, Reason: fmt.Sprintf("no mail can be sent since %s: %s; %d in the outbox%s",
		sending.Since.UTC().Format(time.RFC3339), sending.Reason, sending.Waiting, nextTryAfter(sending.NextTry, now))}, true
}

func nextTryAfter(at, now time.Time) string {
	if !at.After(now) {
		return ""
	}
	return ", next try after " + at.UTC().Format(time.RFC3339)
}
