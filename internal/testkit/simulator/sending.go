package simulator

import (
	"context"
	"crypto/sha256"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-smtp"

	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/mail/message"
	"agentstateloop/state"
)

// These checks hold the rules for answers that are ready and cannot be delivered
// (docs/design.md, "Timers" and "The outbox").

// owedFor is how long an answer that is ready keeps the agent awake.
const owedFor = time.Hour

// spans are after which silence the phases end.
var spans = map[state.Phase]time.Duration{"PREP": 5 * time.Minute, "ACTIVE": 10 * time.Minute}

// owed follows the answers to the operator: when each was ready, and when the last
// one was delivered.
type owed struct {
	ready     map[string]time.Time // by id, while it waits
	delivered time.Time            // or an hour after it was ready, if that was earlier
}

func (o *owed) queued(l line) {
	if l.What != state.WordQueued || l.Effect == nil || l.Effect.Channel != "mail" || l.Effect.Kind != "reply" && l.Effect.Kind != "answer" {
		return
	}
	if o.ready == nil {
		o.ready = map[string]time.Time{}
	}
	o.ready[l.ID] = l.At
}

func (o *owed) ended(l line) {
	at, waited := o.ready[l.ID]
	if !waited {
		return
	}
	delete(o.ready, l.ID)
	if until := at.Add(owedFor); until.Before(l.At) {
		l.At = until
	}
	if l.At.After(o.delivered) {
		o.delivered = l.At
	}
}

// moved checks that silence has not ended a phase while an answer was owed.
func (o *owed) moved(v *historyChecker, l line) {
	if l.New != "IDLE" || !strings.HasPrefix(l.Reason, "silence") || v.world.clock.wasSetBack() || v.halted.any() {
		return
	}
	for id, at := range o.ready {
		if l.At.Sub(at) < owedFor {
			v.broken("owed", "%s→IDLE (%s), while %s has been ready since %s and is not delivered", l.Old, l.Reason, id, at)
		}
	}
	if since := l.At.Sub(o.delivered); !o.delivered.IsZero() && since < spans[l.Old] {
		v.broken("owed", "%s→IDLE (%s), %s after the delivery of an answer", l.Old, l.Reason, since)
	}
}

// margin is the time within which a mail must leave after its server is back: the
// interval while the agent is engaged, and the time until cron fires.
const margin = 2 * time.Minute

// checkSending checks, after an undisturbed poll, that trouble of the submission server was
// reported, and that the mails that could be sent were sent. began is when the poll began.
func (w *World) checkSending(r cycle.Report, o cycle.PollOptions, began time.Time) {
	status, err := w.status()
	if err != nil || status.Halted || w.clock.skewed() != 0 || w.clock.wasSetBack() {
		return
	}
	w.record.mu.Lock()
	trouble, ever := w.record.lastTrouble["smtp"]
	denied := w.record.deniedAt
	w.record.mu.Unlock()
	s, _ := w.state()
	rows := slices.DeleteFunc(s.Outbox, func(e state.Effect) bool { return e.Channel != "mail" })
	if ever && !trouble.Before(began) {
		w.checkTroubleTold(r, status, rows)
		return
	}
	if !denied.Before(began) {
		return // the credential is an outage of its own
	}
	for _, e := range rows {
		switch age := began.Sub(e.Created); {
		case e.Unknown:
			return // the rows behind it wait for it
		case o.ByHand && age > 0:
			w.violate("owed", "%s waits after a poll by hand, although the submission server works", e.ID)
		case e.Kind != "reply" && e.Kind != "answer", age <= 0, age > owedFor-margin:
		case ever && began.Sub(trouble) < margin:
		default:
			w.violate("owed", "%s has been ready for %s and waits, although the submission server has worked since %s", e.ID, age, trouble)
		}
	}
}

// checkTroubleTold checks that a poll which could not send a mail reports a failure of
// its source, and that `status` shows it.
func (w *World) checkTroubleTold(r cycle.Report, status view.Status, rows []state.Effect) {
	tried := slices.ContainsFunc(rows, func(e state.Effect) bool { return e.Attempts > 0 && !e.Unknown })
	if !tried || !w.down("smtp") && !w.down("smtp-451") {
		return // it was for good, or is not known
	}
	w.count.happened("a poll had to report that it could not send mail")
	told := slices.ContainsFunc(r.Failed, func(f cycle.SourceFailure) bool { return f.Source == cycle.FromSending && f.Reason != "" })
	if !told {
		w.violate("sending", "a poll could not send mail, and reports %+v; the outbox has %+v", r.Failed, rows)
	}
	if s := status.Sending; s == nil || s.Reason == "" || s.Since.IsZero() || s.NextTry.IsZero() {
		w.violate("sending", "a poll could not send mail, and status shows %+v", s)
	}
}

// checkLate checks that a mail that is worth something only at its time is not sent
// long after events have overtaken it. The caller must hold mu.
func (r *record) checkLate(o outgoing, h history) {
	if o.kind != "ack" && o.kind != "quiet" && o.kind != "working" || r.world.clock.wasSetBack() {
		return
	}
	if h.any(func(l line) bool { return l.Kind == "halt" }) {
		return // held mails are sent after HALT
	}
	created, known := h.queued[effectOf(o.id)]
	if !known {
		return
	}
	by := line{}
	for _, l := range h.lines {
		switch {
		case !created.before(l), o.at.Sub(l.At) <= margin:
		case by.Kind != "" && l.is("turn", state.WordRunning) && r.world.story.AckAfter*3/2 > margin:
			return // this turn has moved the clock while its runner sent the mail: see takeTime
		case o.kind == "quiet" && l.Kind == "transition" && l.New != "IDLE",
			o.kind == "ack" && l.is("effect", state.WordQueued) && l.Effect.Kind == "reply" && l.Effect.Channel == "mail",
			o.kind == "working" && l.Kind == "task" && l.TurnID == created.Effect.TurnID:
			by = l
		}
	}
	if by.Kind != "" {
		r.world.violate("owed", "%s was sent at %s, although it was overtaken by %s", o.id, o.at, by)
	}
}

// handleOutbox plays a person who sends a row that was given up after all, or drops
// it.
func (w *World) handleOutbox(s Step) error {
	var given []string
	w.run("outbox list", nil, func(_ context.Context, a *cycle.Agent) error {
		rows, err := a.Outbox()
		for _, row := range rows {
			if row.Status == cycle.RowUndelivered {
				given = append(given, row.ID)
			}
		}
		return err
	})
	if len(given) == 0 {
		return nil
	}
	id := given[s.N%len(given)]
	w.count.happened("outbox " + s.Kind)
	return w.command(s, func(ctx context.Context, a *cycle.Agent) (err error) {
		if s.Kind == "retry" {
			_, _, err = a.RetryEffect(ctx, id)
		} else {
			w.record.mu.Lock()
			w.record.struck[id] = true
			w.record.mu.Unlock()
			err = a.DropEffect(ctx, id, "by hand")
		}
		if errors.Is(err, cycle.ErrBusy) {
			return nil
		}
		return err
	})
}

// gaveUp reports whether the answer to a mail was given up, alone or with others.
func (h history) gaveUp(mail *incomingMail) bool {
	return h.any(func(l line) bool {
		answers := l.is("turn", state.WordDispatched) && mail.hasKey(l.Key) ||
			slices.ContainsFunc(l.Collected, func(other state.Message) bool { return mail.hasKey(other.Key) })
		return answers && h.undeliverable(replyKind+l.TurnID)
	})
}

// checkGivenUp checks that the operator hears of each answer that was given up, without its text,
// unless it was sent after all or dropped.
func (w *World) checkGivenUp(h history) {
	for _, id := range sortedKeys(h.delivered) {
		kind, _, _ := strings.Cut(id, ".")
		if lastOf(h.delivered[id]).What != state.WordUndeliverable || w.record.struck[id] || kind != "reply" && kind != "answer" {
			continue
		}
		w.count.happened("an answer was given up")
		if w.record.wentThrough(h, id) && !w.record.mentions(id) {
			w.violate("sending", "%s was given up, mails went through since, and none tells of it", id)
		}
	}
	for _, o := range w.record.mails {
		if o.kind == "notice" && deliverables.MatchString(o.text) {
			w.violate("sending", "%s has what was refused: %s", o.id, o.text)
		}
	}
}

// wentThrough reports whether a mail went through after an effect was given up. The
// caller must hold mu.
func (r *record) wentThrough(h history, id string) bool {
	after := false
	for _, l := range h.lines {
		switch {
		case l.Kind == "delivery" && l.ID == id:
			after = l.What == state.WordUndeliverable
		case after && l.Kind == "delivery" && l.What == state.WordSent && !strings.HasPrefix(l.ID, "notice") && len(r.mailed(l.ID)) > 0:
			return true
		}
	}
	return false
}

// sentFolder is the folder for copies of sent mail, in stories whose agent makes them.
const sentFolder = "Sent"

// checkCopies checks that each mail of ours has one copy in the folder for sent mail, and a
// challenge has no copy. A loss of the state may cost a copy.
func (w *World) checkCopies(h history) {
	if !w.story.Copies {
		return
	}
	copies := map[string]int{}
	err := w.asPerson(func(c *imapclient.Client) error {
		box, err := c.Select(sentFolder, nil).Wait()
		if err != nil || box.NumMessages == 0 {
			return err
		}
		all, err := c.Fetch(imap.SeqSet{{Start: 1, Stop: 0}}, &imap.FetchOptions{BodySection: []*imap.FetchItemBodySection{{Peek: true}}}).Collect()
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
	for _, id := range sortedKeys(w.record.mails) {
		o := w.record.mails[id]
		n := copies[id]
		delivered := func(what state.Word) bool {
			return slices.ContainsFunc(h.delivered[effectOf(id)], func(l line) bool { return l.What == what })
		}
		unsure := !delivered(state.WordSent) || delivered(state.WordNotFiled) || // its process died before the answer, or its bytes are gone
			len(w.record.struck) > 0 || h.recovered || h.undeliverable("") || w.clock.wasWrong()
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

// This file plays submission servers that refuse all mail for a while, or one mail for good.

// The answers to MAIL while the server takes no mail for now, and to RCPT while the recipient is
// unknown.
var (
	notNow    = &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "not now"}
	noMailbox = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
)

// refuses returns the answer to a command of SMTP, and the event that it is refused during an
// outage.
func (w *World) refuses(outage string, answer *smtp.SMTPError, event string) func(string) error {
	return func(string) error {
		if !w.down(outage) {
			return nil
		}
		w.troubled("smtp")
		w.count.happened(event)
		return answer
	}
}

var deliverables = regexp.MustCompile(`\b([EMPT]\d{3}) (?:answered by|submitted)`)

// receiveSent takes a mail of ours. During the outage it refuses each mail with a deliverable for
// good.
func (w *World) receiveSent(raw []byte) error {
	if m := deliverables.FindSubmatch(raw); m != nil && w.down("smtp-554") {
		w.troubled("smtp")
		w.count.happened("a mail was refused for good for what it says")
		w.record.mu.Lock()
		w.record.refused[string(m[1])]++
		w.record.mu.Unlock()
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "this looks like spam: " + strings.ToLower(string(m[1]))}
	}
	w.record.mailSent(raw)
	w.fileSent(raw)
	return nil
}
