package simulator

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// These checks hold the promises about reports from outside of a turn (docs/design.md,
// "Suspension").

// followUpKey is the prefix of the key of the message for a late report. That message has a turn.
const followUpKey = "report:"

// outcome matches the text of a report in a prompt.
var outcome = regexp.MustCompile(`outcome \d+ of (wait\.[0-9a-z.]*[0-9a-z])`)

// checkHears checks that an attempt which begins a message again hears about the work that an
// earlier attempt has started. The caller must hold mu.
func (r *record) checkHears(p prompt, h history) {
	var begun *line
	for i, l := range h.lines {
		if l.Kind == "turn" && l.What == state.WordDispatched && l.TurnID == p.turn && l.Epoch == p.epoch {
			begun = &h.lines[i]
		}
	}
	if begun == nil || begun.Reason == "resumed" || r.world.clock.wasWrong() {
		return
	}
	for _, wait := range h.waits() {
		if wait.turn != p.turn || wait.withdrawn || wait.lapsed || wait.missed != "" || !begun.At.Before(wait.until()) {
			continue
		}
		r.world.count.happened("an attempt began again while something was under way")
		if !strings.Contains(p.text, wait.id) {
			r.world.violate("outside", "%s.%d does not hear about %s, which an earlier attempt has started:\n%s", p.turn, p.epoch, wait.id, p.text)
		}
	}
}

// checkOutside checks that each report in time was handed to one turn, that every reporter had the
// right, and that each wait had its own deadline.
func (w *World) checkOutside(h history) {
	for _, wait := range h.waits() {
		w.checkWait(h, wait)
	}
	for _, r := range w.record.outside {
		if r.sure && len(h.wait(r.id).reports) == 0 {
			w.violate("outside", "the report on %s, which was confirmed, is lost", r.id)
		}
	}
	w.checkFollowUps(h)
}

// checkWait checks one wait.
func (w *World) checkWait(h history, wait *outsideWait) {
	exact := !w.clock.wasWrong()
	if wait.missed == "timeout" && exact && wait.missedAt.Before(wait.until()) {
		w.violate("outside", "%s was given up at %s, before its deadline %s", wait.id, wait.missedAt, wait.until())
	}
	if n := len(wait.reports); n > 1 {
		w.violate("outside", "%s was answered %d times: %v", wait.id, n, wait.reports)
	}
	for _, l := range wait.unheard {
		if exact && w.record.mayReport(wait, l) && l.before(wait.end(h)) {
			w.violate("outside", "nobody heard the report on %s, which was waited for: %s", wait.id, l)
		}
	}
	for _, l := range wait.reports {
		if !w.record.mayReport(wait, l) {
			w.violate("4", "%s was answered by who may not: %s", wait.id, l)
		}
		if exact && !w.record.given(l).Before(wait.until()) {
			w.violate("outside", "the report on %s counted at %s, after its deadline %s", wait.id, l.At, wait.until())
		}
		w.checkHanded(h, wait, l)
	}
}

// mayReport reports whether the sender of a report has the right. The caller must hold mu.
func (r *record) mayReport(wait *outsideWait, l line) bool {
	return slices.ContainsFunc(r.outside, func(o *outsideReport) bool {
		return o.id == wait.id && o.key == l.Key && (o.way == "local" || o.way == "mesh" && wait.what == "tool deploy")
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

// end returns the line that ended the wait, or the last one.
func (o *outsideWait) end(h history) line {
	last := h.lines[len(h.lines)-1]
	turns := []string{o.turn}
	for _, l := range h.lines {
		switch {
		case l.Kind == "edge" && l.Request == o.id && (l.What == state.WordWithdrawn || l.What == state.WordLapsed || l.What == state.WordReport && (l.Key != "" || l.Response == "timeout")),
			l.Kind == "task" && slices.Contains(turns, l.TurnID) && l.Outcome == "canceled",
			!l.At.Before(o.until()):
			return l
		}
	}
	return last
}

// checkHanded checks that one turn got a report, and a second attempt only after the first died.
func (w *World) checkHanded(h history, wait *outsideWait, report line) {
	var shown []prompt
	for _, p := range w.record.prompts {
		for _, m := range outcome.FindAllStringSubmatch(p.text, -1) {
			if m[1] == wait.id {
				shown = append(shown, p)
				break
			}
		}
	}
	w.checkShownOnce("outside", h, wait.id, shown)
	if len(shown) > 0 {
		w.count.happened("a report was handed over")
		return
	}
	if w.record.wasHurt(report.Key) || h.isCanceled(wait) || h.handedToTheDead(wait, report) || h.says("ended", followUpKey+wait.id, "") {
		return
	}
	w.violate("outside", "the report on %s, which counted at %s, was handed to no turn", wait.id, report.At)
}

// checkShownOnce checks that the attempts which were shown a report are of one turn, and that all
// but the last died.
func (w *World) checkShownOnce(rule string, h history, id string, shown []prompt) {
	for i := 1; i < len(shown); i++ {
		a, b := shown[i-1], shown[i]
		switch {
		case a.turn != b.turn:
			w.violate(rule, "the report on %s was handed to two turns, %s and %s", id, a.turn, b.turn)
		case !h.diedAfter(a):
			w.violate(rule, "the report on %s was handed to %s.%d and, although that had ended, to epoch %d", id, a.turn, a.epoch, b.epoch)
		}
	}
}

// diedAfter reports whether an attempt died.
func (h history) diedAfter(p prompt) bool {
	return h.any(func(l line) bool {
		return l.Kind == "recovery" || l.Kind == "turn" && l.TurnID == p.turn && l.Epoch >= p.epoch && (l.What == state.WordReaped || l.What == state.WordGivenBack)
	})
}

// followUp returns the task line of the turn for a late report on a wait.
func (h history) followUp(id string) (task line, ok bool) {
	if tasks := h.tasks[followUpKey+id]; len(tasks) > 0 {
		return tasks[0], true
	}
	return line{}, false
}

// isFollowUp reports whether a turn is that of a late report.
func (h history) isFollowUp(turn string) bool {
	return h.any(func(l line) bool {
		return l.Kind == "turn" && l.TurnID == turn && strings.HasPrefix(l.Key, followUpKey)
	})
}

// isCanceled reports whether the turn that waited, or that of the report, was stopped.
func (h history) isCanceled(wait *outsideWait) bool {
	next, _ := h.followUp(wait.id)
	return h.any(func(l line) bool {
		return l.Kind == "task" && l.Outcome == "canceled" && (l.TurnID == wait.turn || l.TurnID == next.TurnID)
	})
}

// handedToTheDead reports whether an attempt began after the report and its agent died before it
// read the report.
func (h history) handedToTheDead(wait *outsideWait, report line) bool {
	next, _ := h.followUp(wait.id)
	return h.any(func(l line) bool {
		return report.before(l) && l.Kind == "turn" && l.What == state.WordRunning && (l.TurnID == wait.turn || l.TurnID == next.TurnID)
	})
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
		if n != 1 && !(n == 0 && (h.undeliverable(replyKind) || w.record.struckAny())) {
			w.violate("outside", "the answer of %s, turn %s, was sent to %d, want 1", key, tasks[0].TurnID, n)
		}
	}
}

// struckAny reports whether a person dropped an effect. The caller must hold mu.
func (r *record) struckAny() bool { return len(r.struck) > 0 }

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
