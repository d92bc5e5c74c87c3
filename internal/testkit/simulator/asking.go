package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// Turns that ask the operator, and the answers (docs/design.md, "Suspension").

// askPatience is how long a turn waits for the operator.
const askPatience = 12 * time.Minute

// operatorWishes ask the operator: once, twice, together with another agent, and in attempts that
// fail or do not wait.
var operatorWishes = []string{"query", "query", "query", "query-two", "query-both", "query-submit", "query-die"}

// replyKinds are the answers to a question.
//
//	option    the operator replies with an option
//	words     with a text of their own
//	here      answers at the terminal
//	unproved  the reply has no proof but the name of the question
//	forged    somebody else replies, who has seen the question
//	forward   the operator forwards the question, with words of their own
//	STOP      stops the turn, as always
var replyKinds = weighted[string]{{6, "option"}, {6, "words"}, {3, "here"}, {3, "unproved"}, {1, "forged"}, {1, "forward"}, {1, "STOP"}}

// asking adds questions to the steps of one story in three. It has its own random numbers, so that
// the steps of the other seeds stay the same.
func asking(seed int64, steps []Step) []Step {
	g := generator{rand.New(rand.NewPCG(uint64(seed), 50))}
	if !g.chance(3) {
		return steps
	}
	var all []Step
	for _, s := range steps {
		if s.Wish != "" && g.chance(2) {
			s.Wish = pickOne(g, operatorWishes...)
		}
		all = append(all, s)
		if g.chance(3) {
			answer := Step{Do: Answer, Kind: pickWeighted(g, replyKinds), N: g.IntN(100)}
			if answer.Kind == "here" {
				answer.Faults = g.faults(1)
			}
			all = append(all, answer)
		}
	}
	return all
}

// ruling is an answer of the operator to a question.
type ruling struct {
	question string // its id
	text     string
	at       time.Time // when it came
	key      string    // of an answer at the terminal
	mail     *incomingMail
	kind     string
}

// query plays an agent that asks its operator, unless it has.
func (a *livingAgent) query(at turn.Attempt, do, marker string, answer turn.Result) turn.Result {
	if strings.Contains(string(at.Prompt), "You asked your operator (") || strings.Contains(string(at.Prompt), "your operator was asked (") {
		a.world.count.happened("an attempt was told what the operator was asked")
		return answer
	}
	a.askOperator(marker)
	switch do {
	case "query-two":
		a.askOperator(marker)
	case "query-both":
		a.ask(peers[0], marker)
	case "query-submit":
		a.submit(marker)
	case "query-die":
		answer.Status, answer.Reason, answer.Exit, answer.ExitCode = turn.Failed, "it exited with 1", turn.ExitError, 1
	}
	return answer
}

func (a *livingAgent) askOperator(marker string) {
	err, killed := a.command("ask-operator", func(ctx context.Context, c *cycle.Agent) error {
		_, err := c.AskOperator(ctx, a.in, cycle.OperatorQuestion{Text: "May I, for " + marker + "?", Options: []string{"yes", "no"}, Patience: askPatience})
		return err
	})
	if err == nil && !killed {
		a.world.count.happened("the operator was asked")
	}
}

// answerOperator plays the operator, or somebody else, who answers a question.
func (w *World) answerOperator(s Step) error {
	h, err := w.readHistory()
	if err != nil {
		return err
	}
	var sent []*outgoing
	w.record.mu.Lock()
	for _, q := range h.queries() { // in the order of the questions
		sent = append(sent, w.record.mailed(q.id)...)
	}
	n := len(w.record.rulings)
	w.record.mu.Unlock()
	if len(sent) == 0 {
		return nil
	}
	o := sent[max(0, len(sent)-1-s.N%3)] // one of the newest
	v := &ruling{question: effectOf(o.id), text: fmt.Sprintf("verdict %d of the operator.", n), at: w.clock.servers(), kind: s.Kind}
	w.record.mu.Lock()
	w.record.rulings = append(w.record.rulings, v)
	w.record.mu.Unlock()
	if s.Kind == "here" {
		return w.answerHere(s, v)
	}
	l := w.record.newMail("verdict "+s.Kind, settles)
	v.mail = l
	v.text += " " + l.marker + " do=answer"
	from, says, subject := operator, proof(signed...), "Re: @"+handle+" about it, "+l.marker
	switch s.Kind {
	case "option":
		v.text, l.unmarked = []string{"Yes.", "2", "no"}[s.N%3], true
	case "unproved":
		says = refuted
	case "forged":
		from, says, l.fate = "mallory@evil.example", refuted, ignored
	case "forward":
		subject, l.fate = "Fwd: @"+handle+" about it, "+l.marker, answered
	case "STOP":
		v.text, l.fate, l.control = "stop", obeyed, "STOP"
	}
	return w.deliver(l, 1, says+"From: "+from+"\nSubject: "+subject+"\nTo: "+address+"\n"+l.stamp()+
		"In-Reply-To: <"+o.id+">\nReferences: <"+o.id+">\n\n"+v.text+"\n\nOn Mon, Jan 5, 2026 at 9:00 goulard3120 <"+address+"> wrote:\n> May I?\n")
}

// answerHere runs the command `answer`.
func (w *World) answerHere(s Step, v *ruling) error {
	taken := false
	err, killed := w.run("answer", s.Faults, func(ctx context.Context, a *cycle.Agent) error {
		_, err := a.Answer(ctx, v.question, "you", v.text)
		taken = err == nil
		return err
	})
	if taken && !killed {
		w.count.happened("the operator answered at the terminal")
		w.record.mu.Lock()
		v.key = "sure"
		w.record.mu.Unlock()
	}
	return err
}

// effectOf returns the id of the effect of a Message-ID of ours: its first two parts, without
// the thread.
func effectOf(id string) string {
	parts := strings.SplitN(id, ".", 3)
	effect, _, _ := strings.Cut(strings.Join(parts[:min(2, len(parts))], "."), "+")
	return effect
}

// query is a question to the operator in the history.
type query struct {
	id, turn string
	asked    time.Time
	answers  []line // the lines that answered it
	missed   string // the word in place of an answer: "timeout", …
	missedAt time.Time
}

// until returns its deadline.
func (q *query) until() time.Time { return q.asked.Add(askPatience) }

// queries returns the questions to the operator, in order.
func (h history) queries() (all []*query) {
	for _, l := range h.lines {
		if l.Kind != "edge" || !strings.HasPrefix(l.Request, queryKind) {
			continue
		}
		i := slices.IndexFunc(all, func(q *query) bool { return q.id == l.Request })
		if i < 0 {
			all = append(all, &query{id: l.Request, turn: l.TurnID, asked: l.At})
			i = len(all) - 1
		}
		switch {
		case l.What == state.WordReport && l.Key != "":
			all[i].answers = append(all[i].answers, l)
		case l.What == state.WordReport:
			all[i].missed, all[i].missedAt = l.Response, l.At
		}
	}
	return all
}

const queryKind = "question."

// settled reports whether a mail was the answer to a question.
func (h history) settled(l *incomingMail) bool {
	return h.any(func(line line) bool {
		return line.Kind == "edge" && line.What == state.WordReport && line.Key != "" && strings.HasPrefix(line.Request, queryKind) && l.hasKey(line.Key)
	})
}

// These checks hold the promises about questions to the operator (docs/design.md, "Suspension").

// checkAsking checks that each question is mailed as one mail; that one answer counts, from an
// allowed sender and in time; that one turn gets the answer; and that no other message of the
// operator ends the wait of their own turn.
func (w *World) checkAsking(h history) {
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
	mails := len(w.record.mailed(q.id))
	unsent := h.any(func(l line) bool { return l.Kind == "delivery" && l.ID == q.id && l.What != state.WordSent })
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
		return v.mail == nil && l.Source == "cli" || v.mail != nil && v.mail.hasKey(l.Key)
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
	w.checkToldOnce(h, q, v, l)
}

// checkToldOnce checks that one turn got an answer, and a second attempt only after the first died.
// The caller must hold mu of the record.
func (w *World) checkToldOnce(h history, q *query, v *ruling, l line) {
	var shown []prompt
	for _, p := range w.record.prompts {
		if _, rest, found := strings.Cut(p.text, "You asked your operator ("+q.id+")"); found && !strings.Contains(rest[:min(len(rest), 400)], "(no answer") {
			shown = append(shown, p)
		}
	}
	w.checkShownOnce("asking", h, q.id, shown)
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

// operatorsTurn reports whether a turn answers a message of the operator.
func (h history) operatorsTurn(turn string) bool {
	return h.any(func(l line) bool {
		return l.Kind == "message" && l.Message != nil && l.Message.Operator && l.Key != "" && h.any(func(t line) bool {
			return t.Kind == "turn" && t.TurnID == turn && t.Key == l.Key
		})
	})
}
