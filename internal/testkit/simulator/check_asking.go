package simulator

import (
	"slices"
	"strings"
)

// These checks hold what is promised of questions to the operator (docs/design.md,
// "Suspension").

// checkAsking checks that each question is mailed, as one mail; that one answer counts, of
// who may give it and in time; that it is handed to one turn; and that nothing else of the
// operator's ends the wait of their own turn.
func (w *World) checkAsking(h history) {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	asked := map[string]bool{}
	for _, q := range h.queries() {
		asked[q.id] = true
		w.checkQuery(h, q)
	}
	for id, o := range w.record.mails {
		if o.kind == strings.TrimSuffix(queryKind, ".") && !asked[effectOf(id)] {
			w.violate("asking", "%s asks the operator, and no turn has asked", id)
		}
	}
	for _, v := range w.record.rulings {
		if v.key == "sure" && !slices.ContainsFunc(h.queries(), func(q *query) bool { return q.id == v.question && len(q.answers) > 0 }) && !h.says("recovery", "", "") {
			w.violate("asking", "the answer to %s, which was confirmed, is lost", v.question)
		}
	}
}

// checkQuery checks one question. The caller must hold mu of the record.
func (w *World) checkQuery(h history, q *query) {
	exact := !w.clock.wasWrong()
	mails := 0
	for id := range w.record.mails {
		if effectOf(id) == q.id {
			mails++
		}
	}
	unsent := slices.ContainsFunc(h.lines, func(l line) bool { return l.Kind == "delivery" && l.ID == q.id && l.What != "sent" })
	if mails > 1 || mails == 0 && !unsent && !w.record.struck[q.id] {
		w.violate("asking", "%s was mailed %d times", q.id, mails)
	}
	if len(q.answers) > 1 {
		w.violate("asking", "%s was answered %d times: %v", q.id, len(q.answers), q.answers)
	}
	if q.missed == "timeout" && exact && q.missedAt.Before(q.until()) {
		w.violate("asking", "%s was given up at %s, before its deadline %s", q.id, q.missedAt, q.until())
	}
	if strings.HasPrefix(q.missed, "timeout:") {
		w.count.happened("a question of another's turn ended because the operator wrote")
		if h.operatorsTurn(q.turn) {
			w.violate("asking", "%s, of the operator's own turn, ended by another message: %s", q.id, q.missed)
		}
	}
	for _, l := range q.answers {
		w.checkAnswer(h, q, l)
	}
	if q.missed == "timeout" {
		w.count.happened("the operator did not answer in time")
	}
}

// checkAnswer checks the answer that the line l records. The caller must hold mu of the
// record.
func (w *World) checkAnswer(h history, q *query, l line) {
	i := slices.IndexFunc(w.record.rulings, func(v *ruling) bool {
		if v.question != q.id {
			return false
		}
		return v.mail == nil && l.Source == "cli" || v.mail != nil && v.mail.hasKey(l.Key+`"`)
	})
	if i < 0 && slices.ContainsFunc(w.record.incoming, func(m *incomingMail) bool { return m.kind == "reply" && m.hasKey(l.Key+`"`) }) {
		w.count.happened("the operator answered")
		return // any reply of the operator in that thread
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
	w.checkToldOnce(h, q, v, l)
}

// checkToldOnce checks that an answer was handed to one turn, and again only to an attempt
// that took the place of a dead one. The caller must hold mu of the record.
func (w *World) checkToldOnce(h history, q *query, v *ruling, l line) {
	var shown []prompt
	for _, p := range w.record.prompts {
		if _, rest, found := strings.Cut(p.text, "You asked your operator ("+q.id+")"); found && !strings.Contains(rest[:min(len(rest), 400)], "(no answer") {
			shown = append(shown, p)
		}
	}
	for i := 1; i < len(shown); i++ {
		a, b := shown[i-1], shown[i]
		switch {
		case a.turn != b.turn:
			w.violate("asking", "the answer to %s was handed to two turns, %s and %s", q.id, a.turn, b.turn)
		case !h.diedAfter(a):
			w.violate("asking", "the answer to %s was handed to %s.%d and, although that had ended, to epoch %d", q.id, a.turn, a.epoch, b.epoch)
		}
	}
	if len(shown) > 0 {
		w.count.happened("an answer of the operator was handed over")
		if text := shown[0].text; v.kind == "words" && !strings.Contains(text, v.text) && !w.record.wasHurt(l.Key) {
			w.violate("asking", "the answer to %s was %q, and %s.%d was told something else:\n%s", q.id, v.text, shown[0].turn, shown[0].epoch, text)
		}
		return
	}
	wait := &outsideWait{id: q.id, turn: q.turn}
	if w.record.wasHurt(l.Key) || h.isCanceled(wait) || h.handedToTheDead(wait, l) || h.says("ended", followUpKey+q.id, "") {
		return
	}
	w.violate("asking", "the answer to %s, which counted at %s, was handed to no turn", q.id, l.At)
}

// operatorsTurn reports whether a turn was that of a message of the operator's.
func (h history) operatorsTurn(turn string) bool {
	return slices.ContainsFunc(h.lines, func(l line) bool {
		return l.Kind == "message" && l.Message != nil && l.Message.Operator && l.Key != "" && slices.ContainsFunc(h.lines, func(t line) bool {
			return t.Kind == "turn" && t.TurnID == turn && t.Key == l.Key
		})
	})
}
