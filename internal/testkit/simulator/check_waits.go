package simulator

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// These checks hold the promises about turns that wait: for a report from outside, or for an answer
// of their operator (docs/design.md, "Suspension").

const (
	// followUpKey is the prefix of the key of the message for a late report. That message has a turn.
	followUpKey = "report:"

	// queryKind begins the id of a question to the operator.
	queryKind = "question."
)

// wait is one wait of a turn in the history.
type wait struct {
	id, turn, what string
	begun          time.Time
	reports        []line    // the lines of those that counted
	missed         string    // the last word in place of the report: "timeout", …
	missedAt       time.Time //
	withdrawn      bool
	lapsed         bool // no report is expected any more
	unheard        []line
}

// waits returns the waits of turns for reports from outside, or their questions to the operator, in
// order.
func (h history) waits(questions bool) (all []*wait) {
	byID := map[string]*wait{}
	for _, l := range h.lines {
		question := strings.HasPrefix(l.Request, queryKind)
		if l.Kind == "edge" && byID[l.Request] == nil && question == questions && (question || l.What == state.WordAwait) {
			byID[l.Request] = &wait{id: l.Request, turn: l.TurnID, what: l.To, begun: l.At}
			all = append(all, byID[l.Request])
		}
		o := byID[l.Request]
		if l.Kind == "task" && l.Outcome == "canceled" {
			for _, o := range all {
				o.lapsed = o.lapsed || o.turn == l.TurnID
			}
		}
		switch {
		case o == nil:
		case l.is("note", state.WordReport):
			o.unheard = append(o.unheard, l)
		case l.isAnswer():
			o.reports = append(o.reports, l)
		case l.is("edge", state.WordReport):
			o.missed, o.missedAt = l.Response, l.At
		case l.is("edge", state.WordWithdrawn):
			o.withdrawn = true
		case l.is("edge", state.WordLapsed):
			o.lapsed = true
		}
	}
	return all
}

// isAnswer reports whether a line has a report or an answer that a turn waited for.
func (l line) isAnswer() bool { return l.is("edge", state.WordReport) && l.Key != "" }

// answersQuestion reports whether a line has an answer of the operator to a question.
func (l line) answersQuestion() bool { return l.isAnswer() && strings.HasPrefix(l.Request, queryKind) }

// wait returns the wait for a report with this id.
func (h history) wait(id string) *wait {
	for _, o := range h.waits(false) {
		if o.id == id {
			return o
		}
	}
	return &wait{}
}

// until returns the deadline.
func (o *wait) until() time.Time {
	switch {
	case strings.HasPrefix(o.id, queryKind):
		return o.begun.Add(askPatience)
	case o.what == "submit":
		return o.begun.Add(submitPatience)
	}
	return o.begun.Add(toolPatience)
}

// open returns why a report must be heard at now, or "".
func (o *wait) open(now time.Time) string {
	if o.withdrawn || o.lapsed || len(o.reports) > 0 || o.missed == "timeout" || !now.Before(o.until()) {
		return ""
	}
	return fmt.Sprintf("is waited for until %s", o.until().Format("15:04:05"))
}

// end returns the line that ended the wait, or the last one.
func (o *wait) end(h history) line {
	for _, l := range h.lines {
		switch {
		case l.Kind == "edge" && l.Request == o.id && (l.What == state.WordWithdrawn || l.What == state.WordLapsed || l.What == state.WordReport && (l.Key != "" || l.Response == "timeout")),
			l.Kind == "task" && l.TurnID == o.turn && l.Outcome == "canceled",
			!l.At.Before(o.until()):
			return l
		}
	}
	return lastOf(h.lines)
}

// turnsOf returns the turns that a report may reach: the one that waits, and that for a late report.
func (h history) turnsOf(o *wait) []string {
	turns := []string{o.turn}
	for _, task := range h.tasks[followUpKey+o.id] {
		turns = append(turns, task.TurnID)
	}
	return turns
}

// isFollowUp reports whether a turn is that of a late report.
func (h history) isFollowUp(turn string) bool {
	return slices.ContainsFunc(h.turns[turn], func(l line) bool { return strings.HasPrefix(l.Key, followUpKey) })
}

// checkWait checks that a wait had one report, and was not given up before its deadline.
func (w *World) checkWait(rule string, o *wait) {
	if o.missed == "timeout" && !w.clock.wasWrong() && o.missedAt.Before(o.until()) {
		w.violate(rule, "%s was given up at %s, before its deadline %s", o.id, o.missedAt, o.until())
	}
	if n := len(o.reports); n > 1 {
		w.violate(rule, "%s was answered %d times: %v", o.id, n, o.reports)
	}
}

// checkHanded checks that one turn got a report, and a second attempt only after the first died.
// shown are the attempts that were shown the report. It reports whether there was one.
func (w *World) checkHanded(rule string, h history, o *wait, report line, shown []prompt) bool {
	for i := 1; i < len(shown); i++ {
		a, b := shown[i-1], shown[i]
		died := h.recovered || slices.ContainsFunc(h.turns[a.turn], func(l line) bool {
			return l.Epoch >= a.epoch && (l.What == state.WordReaped || l.What == state.WordGivenBack)
		})
		switch {
		case a.turn != b.turn:
			w.violate(rule, "the report on %s was handed to two turns, %s and %s", o.id, a.turn, b.turn)
		case !died:
			w.violate(rule, "the report on %s was handed to %s.%d and, although that had ended, to epoch %d", o.id, a.turn, a.epoch, b.epoch)
		}
	}
	turns := h.turnsOf(o)
	isDamaged := func(l line) bool { // the message of its turn
		return l.is("ended", state.Word(state.Errored)) && slices.ContainsFunc(h.turns[o.turn], func(t line) bool { return t.Key == l.Key })
	}
	excused := h.any(func(l line) bool {
		return isDamaged(l) || slices.Contains(turns, l.TurnID) && (l.Kind == "task" && l.Outcome == "canceled" || // it was stopped
			l.is("turn", state.WordRunning) && report.before(l)) // or the agent may have died before it read the report
	})
	if len(shown) == 0 && !excused && !w.record.wasHurt(report.Key) && !h.says("ended", followUpKey+o.id, "") {
		w.violate(rule, "the report on %s, which counted at %s, was handed to no turn", o.id, report.At)
	}
	return len(shown) > 0
}

// outcome matches the text of a report in a prompt.
var outcome = regexp.MustCompile(`outcome \d+ of (wait\.[0-9a-z.]*[0-9a-z])`)

// checkHears checks that an attempt which begins a message again hears about the work that an
// earlier attempt has started. The caller must hold mu.
func (r *record) checkHears(p prompt, h history) {
	begun := h.dispatch(p.turn, p.epoch)
	if begun.Kind == "" || begun.Reason == "resumed" || r.world.clock.wasWrong() {
		return
	}
	for _, o := range h.waits(false) {
		if o.turn != p.turn || o.withdrawn || o.lapsed || o.missed != "" || !begun.At.Before(o.until()) {
			continue
		}
		r.world.count.happened("an attempt began again while something was under way")
		if !strings.Contains(p.text, o.id) {
			r.world.violate("outside", "%s.%d does not hear about %s, which an earlier attempt has started:\n%s", p.turn, p.epoch, o.id, p.text)
		}
	}
}

// checkOutside checks that each report in time was handed to one turn, that every reporter had the
// right, and that each wait had its own deadline.
func (w *World) checkOutside(h history) {
	exact := !w.clock.wasWrong()
	for _, o := range h.waits(false) {
		w.checkWait("outside", o)
		for _, l := range o.unheard {
			if exact && w.record.mayReport(o, l) && l.before(o.end(h)) {
				w.violate("outside", "nobody heard the report on %s, which was waited for: %s", o.id, l)
			}
		}
		for _, l := range o.reports {
			if !w.record.mayReport(o, l) {
				w.violate("4", "%s was answered by who may not: %s", o.id, l)
			}
			if exact && !w.record.given(l).Before(o.until()) {
				w.violate("outside", "the report on %s counted at %s, after its deadline %s", o.id, l.At, o.until())
			}
			var shown []prompt
			for _, p := range w.record.prompts {
				if slices.ContainsFunc(outcome.FindAllStringSubmatch(p.text, -1), func(m []string) bool { return m[1] == o.id }) {
					shown = append(shown, p)
				}
			}
			if w.checkHanded("outside", h, o, l, shown) {
				w.count.happened("a report was handed over")
			}
		}
	}
	for _, r := range w.record.outside {
		if r.sure && len(h.wait(r.id).reports) == 0 {
			w.violate("outside", "the report on %s, which was confirmed, is lost", r.id)
		}
	}
	w.checkFollowUps(h)
}

// mayReport reports whether the sender of a report has the right. The caller must hold mu.
func (r *record) mayReport(o *wait, l line) bool {
	return slices.ContainsFunc(r.outside, func(given *outsideReport) bool {
		return given.id == o.id && given.key == l.Key && (given.way == "local" || given.way == "mesh" && o.what == "tool deploy")
	})
}

// given returns when the report of a line was given. The caller must hold mu.
func (r *record) given(l line) time.Time {
	for _, o := range r.outside {
		if o.key == l.Key && o.way == "mesh" {
			return o.at
		}
	}
	return l.At
}

// checkFollowUps checks that the answer of each turn for a late report reached the recipient of the
// first answer, or for `tell` the operator by mail.
func (w *World) checkFollowUps(h history) {
	for key, tasks := range h.tasks {
		if !strings.HasPrefix(key, followUpKey) {
			continue
		}
		w.count.happened("a late report had a turn of its own")
		if len(tasks) != 1 {
			w.violate("outside", "%s had %d turns", key, len(tasks))
		}
		reply := replyKind + tasks[0].TurnID
		n := len(w.record.mailed(reply))
		if w.record.reports[reply] != nil {
			n++
		}
		if n != 1 && !(n == 0 && (h.undeliverable(replyKind) || len(w.record.struck) > 0)) {
			w.violate("outside", "the answer of %s, turn %s, was sent to %d, want 1", key, tasks[0].TurnID, n)
		}
	}
}

// checkAsking checks that each question is mailed as one mail; that one answer counts, from an
// allowed sender and in time; that one turn gets the answer; and that no other message of the
// operator ends the wait of their own turn.
func (w *World) checkAsking(h history) {
	asked := map[string]*wait{}
	for _, q := range h.waits(true) {
		asked[q.id] = q
		w.checkQuestion(h, q)
		for _, l := range q.reports {
			w.checkAnswer(h, q, l)
		}
	}
	for id, o := range w.record.mails {
		if o.kind == strings.TrimSuffix(queryKind, ".") && asked[effectOf(id)] == nil {
			w.violate("asking", "%s asks the operator, and no turn has asked", id)
		}
	}
	for _, v := range w.record.rulings {
		if q := asked[v.question]; v.sure && (q == nil || len(q.reports) == 0) && !h.recovered {
			w.violate("asking", "the answer to %s, which was confirmed, is lost", v.question)
		}
	}
}

// checkQuestion checks the mail with a question, and the end of its wait. The caller must hold mu of
// the record.
func (w *World) checkQuestion(h history, q *wait) {
	w.checkWait("asking", q)
	mails := len(w.record.mailed(q.id))
	unsent := slices.ContainsFunc(h.delivered[q.id], func(l line) bool { return l.What != state.WordSent })
	if mails > 1 || mails == 0 && !unsent && !w.record.struck[q.id] {
		w.violate("asking", "%s was mailed %d times", q.id, mails)
	}
	if strings.HasPrefix(q.missed, "timeout:") {
		w.count.happened("a question of another's turn ended because the operator wrote")
		if h.isOperators(q.turn) {
			w.violate("asking", "%s, of the operator's own turn, ended by another message: %s", q.id, q.missed)
		}
	}
	if q.missed == "timeout" {
		w.count.happened("the operator did not answer in time")
	}
}

// isOperators reports whether a turn answers a message of the operator.
func (h history) isOperators(turn string) bool {
	return h.any(func(l line) bool {
		return l.Kind == "message" && l.Message != nil && l.Message.Operator && l.Key != "" &&
			slices.ContainsFunc(h.turns[turn], func(t line) bool { return t.Key == l.Key })
	})
}

// checkAnswer checks the answer that the line l records. The caller must hold mu of the
// record.
func (w *World) checkAnswer(h history, q *wait, l line) {
	i := slices.IndexFunc(w.record.rulings, func(v *ruling) bool {
		return v.question == q.id && (v.mail == nil && l.Source == "cli" || v.mail != nil && v.mail.hasKey(l.Key))
	})
	if i < 0 && slices.ContainsFunc(w.record.incoming, func(m *incomingMail) bool { return m.kind == "reply" && m.hasKey(l.Key) }) {
		w.count.happened("the operator answered")
		return // an ordinary reply of the operator in that thread
	}
	if i < 0 {
		w.violate("4", "%s was answered by %s, which is not an answer to it", q.id, l)
		return
	}
	v := w.record.rulings[i]
	w.count.happened("the operator answered")
	w.count.happened("the operator answered: " + v.kind)
	if v.kind == "forged" || v.kind == "forward" || v.kind == "STOP" {
		w.violate("4", "%s was answered by a mail that is %s", q.id, v.kind)
	}
	if !w.clock.wasWrong() && !v.at.Before(q.until()) {
		w.violate("asking", "the answer to %s of %s counted after its deadline %s", q.id, v.at, q.until())
	}
	var shown []prompt
	for _, p := range w.record.prompts {
		if _, rest, found := strings.Cut(p.text, "You asked your operator ("+q.id+")"); found && !strings.Contains(rest[:min(len(rest), 400)], "(no answer") {
			shown = append(shown, p)
		}
	}
	if !w.checkHanded("asking", h, q, l, shown) {
		return
	}
	w.count.happened("an answer of the operator was handed over")
	if p := shown[0]; v.kind == "words" && !strings.Contains(p.text, v.text) && !w.record.wasHurt(l.Key) {
		w.violate("asking", "the answer to %s was %q, and %s.%d was told something else:\n%s", q.id, v.text, p.turn, p.epoch, p.text)
	}
}

// checkWaiting checks, after an undisturbed poll, that no row waits whose time was up when the poll
// began.
func (w *World) checkWaiting(began time.Time, o cycle.PollOptions) {
	s, ok := w.state()
	if !ok {
		return
	}
	if s.Turn.Status == "suspended" {
		for _, wait := range s.Turn.Waiting {
			if wait.Report == "" && wait.Missed == "" && !wait.By.After(began) {
				w.violate("outside", "%s is waited for after its deadline %s", wait.ID, wait.By)
			}
		}
	}
	if o.NoTurn || s.Turn.Status != "idle" || len(s.Credentials) > 0 || len(s.Outages) > 0 || began.Before(s.CooldownUntil) {
		return
	}
	for _, m := range s.Inbox {
		if m.Status != "deferred" || m.Damaged || !strings.HasPrefix(m.Reason, collecting) || m.NextRetryAt.After(began) {
			continue
		}
		if status, err := w.status(); err == nil && !status.Halted && status.Tier == "normal" {
			w.violate("collect", "%s waits for its sender since %s", m.Key, m.NextRetryAt)
		}
	}
}
