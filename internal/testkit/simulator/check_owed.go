package simulator

import (
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
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
	if l.What != "queued" || l.Effect == nil || l.Effect.Channel != "mail" || l.Effect.Kind != "reply" && l.Effect.Kind != "answer" {
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
	if l.New != "IDLE" || !strings.HasPrefix(l.Reason, "silence") || v.world.clock.wasSetBack() || v.halted["here"] || v.halted["mesh"] {
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

// checkSending checks, after a poll that nothing disturbed, that trouble of the
// submission server was reported, and that what could be sent was sent. began is
// when the poll began.
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
			return // what stands behind it waits for it
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
func (w *World) checkTroubleTold(r cycle.Report, status cycle.Status, rows []state.Effect) {
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
	id, _, _ := strings.Cut(o.id, "@")
	created, turn := -1, ""
	halted := slices.ContainsFunc(h.lines, func(l line) bool { return l.Kind == "halt" })
	if halted {
		return // what HALT has held is sent afterwards
	}
	for i, l := range h.lines {
		switch {
		case l.Kind == "effect" && l.What == "queued" && effectOf(id) == l.ID:
			created, turn = i, l.Effect.TurnID
		case created < 0, o.at.Sub(l.At) <= margin:
		case o.kind == "quiet" && l.Kind == "transition" && l.New != "IDLE",
			o.kind == "ack" && l.Kind == "effect" && l.What == "queued" && l.Effect.Kind == "reply" && l.Effect.Channel == "mail",
			o.kind == "working" && l.Kind == "task" && l.TurnID == turn:
			r.world.violate("owed", "%s was sent at %s, although it was overtaken by %s", o.id, o.at, l)
		}
	}
}
