package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/turn"
)

// Turns that ask the operator, and what the operator does about it (docs/design.md,
// "Suspension").

// askPatience is how long a turn waits for the operator.
const askPatience = 12 * time.Minute

// operatorWishes ask the operator: once, twice, and another agent as well; and what an
// attempt does that has asked, and is not to wait.
var operatorWishes = []string{"query", "query", "query", "query-two", "query-both", "query-submit", "query-die"}

// replyKinds are what the operator, and others, do about a question.
//
//	option    the operator replies with an option
//	words     with a text of their own
//	here      answers at the terminal
//	unproved  nothing proves the reply but that it names the question
//	forged    somebody else replies, who has seen the question
//	forward   the operator forwards the question, with words of their own
//	STOP      stays what it is
var replyKinds = weighted[string]{{6, "option"}, {6, "words"}, {3, "here"}, {3, "unproved"}, {1, "forged"}, {1, "forward"}, {1, "STOP"}}

// asking adds questions to the steps of one story in three. It is drawn apart, so that the
// steps of the other seeds are what they were before turns could ask.
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

// ruling is what the operator has said to a question.
type ruling struct {
	question string // its id
	text     string
	at       time.Time // when its server had it
	key      string    // of a word at the terminal
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

// answerOperator plays what the operator, or somebody else, does about a question.
func (w *World) answerOperator(s Step) error {
	h, err := w.readHistory()
	if err != nil {
		return err
	}
	var sent []*outgoing
	w.record.mu.Lock()
	for _, q := range h.queries() { // in the order in which they were asked
		if o := w.record.queryMail(q.id); o != nil {
			sent = append(sent, o)
		}
	}
	n := len(w.record.rulings)
	w.record.mu.Unlock()
	if len(sent) == 0 {
		return nil
	}
	o := sent[max(0, len(sent)-1-s.N%3)] // rather what was asked lately
	v := &ruling{question: effectOf(o.id), text: fmt.Sprintf("verdict %d of the operator.", n), at: w.clock.servers(), kind: s.Kind}
	if s.Kind == "here" {
		return w.answerHere(s, v)
	}
	w.record.mu.Lock()
	l := &incomingMail{marker: fmt.Sprintf("M%03d", len(w.record.incoming)), kind: "verdict " + s.Kind, fate: settles, at: v.at}
	w.record.incoming = append(w.record.incoming, l)
	v.mail = l
	w.record.rulings = append(w.record.rulings, v)
	w.record.mu.Unlock()
	l.id = l.marker + "@example.com"
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
	return w.deliver(l, 1, says+"From: "+from+"\nSubject: "+subject+"\nTo: "+address+"\nDate: "+l.at.Format(time.RFC1123Z)+
		"\nMessage-ID: <"+l.id+">\nIn-Reply-To: <"+o.id+">\nReferences: <"+o.id+">\n\n"+v.text+"\n\nOn Mon, Jan 5, 2026 at 9:00 goulard3120 <"+address+"> wrote:\n> May I?\n")
}

// answerHere runs the command `answer`.
func (w *World) answerHere(s Step, v *ruling) error {
	w.record.mu.Lock()
	w.record.rulings = append(w.record.rulings, v)
	w.record.mu.Unlock()
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

// queryMail returns the mail of a question, or nil while it has not left. The caller must
// hold mu.
func (r *record) queryMail(id string) *outgoing {
	for _, key := range sortedKeys(r.mails) {
		if effectOf(key) == id {
			return r.mails[key]
		}
	}
	return nil
}

// effectOf returns the id of the effect of a Message-ID of ours: its first two parts, without
// the thread.
func effectOf(id string) string {
	parts := strings.SplitN(id, ".", 3)
	effect, _, _ := strings.Cut(strings.Join(parts[:min(2, len(parts))], "."), "+")
	return effect
}

// query is a question to the operator, as the history tells of it.
type query struct {
	id, turn string
	asked    time.Time
	answers  []line // with which it was answered
	missed   string // what stands in for an answer
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
		case l.What == "report" && l.Key != "":
			all[i].answers = append(all[i].answers, l)
		case l.What == "report":
			all[i].missed, all[i].missedAt = l.Response, l.At
		}
	}
	return all
}

const queryKind = "question."

// settled reports whether a mail was the answer to a question.
func (h history) settled(l *incomingMail) bool {
	return slices.ContainsFunc(h.lines, func(line line) bool {
		return line.Kind == "edge" && line.What == "report" && line.Key != "" && strings.HasPrefix(line.Request, queryKind) && l.hasKey(line.Key+`"`)
	})
}
