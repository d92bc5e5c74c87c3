package simulator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// Work that a turn starts outside of it, and its reports (docs/design.md, "Suspension").

// How long a turn waits for a tool, and for work of its own.
const (
	toolPatience   = 50 * time.Minute
	submitPatience = 20 * time.Minute
)

// A report comes by one of these ways: by the command, as from the webhook (local); by the first
// peer, which may report on tools (mesh); by another peer, which may not (other); or by the command
// with an invented id (unknown).

// outsideReport is a report that somebody gave.
type outsideReport struct {
	id, way, text string
	key           string    // of its line in the history
	at            time.Time // when it was given
	sure          bool      // the command has confirmed it
}

// startOutside plays an agent that starts work which reports later, unless an earlier attempt has
// started it.
func (a *livingAgent) startOutside(at turn.Attempt, do, marker string, answer turn.Result) turn.Result {
	w := a.world
	if strings.Contains(string(at.Prompt), "\n<report ") || strings.Contains(string(at.Prompt), "an earlier attempt has started this") {
		w.count.happened("an attempt was told what has been started")
		return answer
	}
	var id string
	if do != "deploy-wait" {
		id = a.await("await", func(ctx context.Context, c *cycle.Agent) (string, error) {
			return c.AwaitReport(ctx, a.in, cycle.Awaiting{What: "tool deploy", Text: marker, Peers: peers[:1], Patience: toolPatience})
		})
	}
	if do == "deploy-wait" || do == "deploy-two" {
		a.await("suspend", func(ctx context.Context, c *cycle.Agent) (string, error) {
			return c.Suspend(ctx, a.in, marker+" so far", submitPatience)
		})
	}
	switch do {
	case "deploy-early":
		if id != "" {
			w.count.happened("a report came before its attempt ended")
			w.report(id, "local", nil)
		}
	case "deploy-die":
		answer.Status, answer.Reason, answer.Exit, answer.ExitCode = turn.Failed, "it exited with 1", turn.ExitError, 1
	case "deploy-fail":
		if id != "" {
			a.command("withdraw", func(ctx context.Context, c *cycle.Agent) error {
				return c.WithdrawReport(ctx, a.in, id, "the tool failed")
			})
		}
	case "deploy-end":
		a.command("submit", func(ctx context.Context, c *cycle.Agent) error {
			return c.Submit(ctx, a.in, cycle.Submission{Text: marker + " submitted", Fields: results(marker), Finish: true})
		})
	case "deploy-over":
		a.command("finish", func(ctx context.Context, c *cycle.Agent) error { return c.Finish(ctx, a.in) })
	}
	return answer
}

// await calls a command that lets the turn wait, and returns the id, or "" if the caller
// did not get it.
func (a *livingAgent) await(name string, do func(context.Context, *cycle.Agent) (string, error)) (id string) {
	err, killed := a.command(name, func(ctx context.Context, c *cycle.Agent) (err error) {
		id, err = do(ctx, c)
		return err
	})
	if err != nil || killed {
		return ""
	}
	a.world.count.happened("a turn waits for something outside")
	return id
}

// reportOutside gives the report on work that a turn has started.
func (w *World) reportOutside(s Step) error {
	waits := w.readHistory().waits(false)
	if len(waits) == 0 {
		return nil
	}
	id := waits[max(0, len(waits)-1-s.N%4)].id // one of the newest
	if s.Kind == "unknown" {
		err, killed := w.run("report", s.Faults, func(ctx context.Context, a *cycle.Agent) error {
			_, err := a.TakeReport(ctx, id+"0", cycle.LocalReport{Text: "outcome of nothing"})
			return err
		})
		if !killed && err == nil {
			w.violate("outside", "a report by an id that nobody minted was taken")
		}
		return nil
	}
	return w.report(id, s.Kind, s.Faults)
}

// report reports on id.
func (w *World) report(id, way string, faults []Fault) error {
	w.record.mu.Lock()
	n := len(w.record.outside)
	r := &outsideReport{id: id, way: way, text: fmt.Sprintf("outcome %d of %s.", n, id), at: w.clock.servers(), key: "reported:" + id}
	if way == "mesh" {
		r.key = fmt.Sprintf("mesh:%s:outcome-%d", peers[0], n)
	}
	w.record.outside = append(w.record.outside, r)
	w.record.mu.Unlock()
	if way == "local" {
		return w.reportHere(r, faults)
	}
	from := peers[0]
	if way == "other" {
		from = peers[1]
	}
	w.post(map[string]any{
		"id": fmt.Sprintf("outcome-%d", n), "from": from, "to": handle, "kind": "report", "correlation_id": id, "message": r.text, "status": "success",
	}, true)
	return nil
}

// reportHere runs the command `report`.
func (w *World) reportHere(r *outsideReport, faults []Fault) error {
	taken := false
	strikes := w.strikes.Load()
	err, killed := w.run("report", faults, func(ctx context.Context, a *cycle.Agent) (err error) {
		taken, err = a.TakeReport(ctx, r.id, cycle.LocalReport{From: "deploy", Status: state.Success, Text: r.text})
		return err
	})
	if killed || err != nil && strikes != w.strikes.Load() {
		return err
	}
	wait := w.readHistory().wait(r.id)
	switch {
	case errors.Is(err, cycle.ErrLateReport):
		w.count.happened("a report was late")
		if why := wait.open(w.clock.machine()); why != "" && !w.clock.wasWrong() {
			w.violate("outside", "a report on %s was late, which %s", r.id, why)
		}
	case errors.Is(err, cycle.ErrUnknownReport):
		w.violate("outside", "the id %s, which the history has, is not known", r.id)
	case err == nil && taken:
		w.count.happened("a report was taken")
		w.record.mu.Lock()
		r.sure = true
		w.record.mu.Unlock()
	case err == nil && len(wait.reports) == 0:
		w.violate("outside", "the report on %s was before, says the command, and no line of the history does", r.id)
	case err == nil:
		w.count.happened("a report came twice")
	}
	return err
}

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

// asking adds questions to the steps of one story in three.
func asking(seed int64, steps []Step) []Step {
	g := newGenerator(seed, 50)
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
	sure     bool      // the command at the terminal has confirmed it
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
	h := w.readHistory()
	var sent []*outgoing
	w.record.mu.Lock()
	for _, q := range h.waits(true) { // in the order of the questions
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
		v.text, l.fate, l.unmarked = "stop", obeyed, true
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
		v.sure = true
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

// settled reports whether a mail was the answer to a question.
func (h history) settled(l *incomingMail) bool {
	return h.any(func(line line) bool { return line.answersQuestion() && l.hasKey(line.Key) })
}
