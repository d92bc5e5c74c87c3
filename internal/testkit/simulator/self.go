package simulator

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// How the agent wakes itself, and the checks (docs/design.md, "It drives itself").

// selfTurns is how many turns in a row the agent may cause itself.
const selfTurns = 4

// rights are the arguments of a turn, by its cause.
var rights = cycle.Rights{Operator: []string{"--operator"}, Peer: []string{"--peer"}, Event: []string{"--event"}, Self: []string{"--self"}, Task: []string{"--task"}}

// selfWish matches the words with which the agent plans a turn: the message that it is
// about, and how many more are to follow.
var selfWish = regexp.MustCompile(`\bself for ([EMPT]\d{3}), (\d) more\b`)

// plan plans a turn of the agent's own.
func (a *livingAgent) plan(do, marker string, more int) {
	words := fmt.Sprintf("self for %s, %d more", marker, more)
	err, _ := a.command(do, func(ctx context.Context, c *cycle.Agent) error {
		switch do {
		case "doze":
			return c.Sleep(ctx, a.in, 25*time.Minute, words)
		case "remind-late":
			_, err := c.Remind(ctx, a.in, "5h", words)
			return err
		}
		_, err := c.Remind(ctx, a.in, "7m", words)
		return err
	})
	if err == nil {
		a.world.count.happened("the agent planned a turn")
	}
}

// workAlone plays a turn of the agent's own: it plans the next one, and may speak to the operator.
func (a *livingAgent) workAlone(at turn.Attempt, marker string, more int) turn.Result {
	a.world.count.happened("the agent woke itself")
	if more > 0 {
		a.plan([]string{"doze", "remind"}[more%2], marker, more-1)
	}
	r := turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: fmt.Sprintf("%s went on by %s.%d", marker, at.TurnID, at.Epoch)}
	switch at.Epoch % 4 {
	case 1:
		r.Text = "Nothing."
	case 2:
		r.Status, r.Reason, r.Exit, r.ExitCode = turn.Failed, "it exited with 1", turn.ExitError, 1
	}
	return r
}

// selfWishOf returns the wish in the prompt of a turn that the agent planned.
func selfWishOf(prompt string) (marker string, more int, ok bool) {
	m := selfWish.FindStringSubmatch(tagged(prompt, "message"))
	if m == nil {
		return "", 0, false
	}
	more, _ = strconv.Atoi(m[2])
	return m[1], more, true
}

// checkRights checks that a turn has the rights of its cause, and that one of the agent's
// own is shown its own conversation since the last reset. The caller must hold mu.
func (r *record) checkRights(p prompt, extra []string, h history) {
	want := "--operator"
	switch who := r.speaker(p.owner); {
	case p.owner == "" && promptedBy(p.text) != "":
		want = "--task"
	case p.owner == "":
		return
	case strings.HasPrefix(who, byProgram):
		want = "--event"
	case who != byOperator:
		want = "--peer"
	case p.marker == "":
		want = "--self"
	}
	if !slices.Equal(extra, []string{want}) {
		r.world.violate("self", "%s.%d, about %s, has the rights %q, want %s", p.turn, p.epoch, p.owner, extra, want)
	}
	if p.marker == "" && p.owner != "" {
		r.checkQuoted(p.turn, r.speaker(p.owner), p.text, tagged(p.text, "said"), h)
	}
}

// streak follows the turns that the agent causes itself, line by line.
type streak struct {
	planned map[string]bool // the rows of the agent itself, by key
	turns   int             // of its own, since its operator was heard
}

// read follows one line, before the checker does.
func (k *streak) read(v *historyChecker, l line) {
	switch {
	case l.Kind == "message" && l.Source == "self":
		k.planned[l.Key] = true
	case l.endsStreak():
		k.turns = 0
	case l.Kind == "turn" && l.What == state.WordDispatched && k.planned[l.Key] && v.keys[l.Key] == "":
		k.begun(v, l)
	}
}

// endsStreak reports whether a line shows a word of the operator.
func (l line) endsStreak() bool {
	switch l.Kind {
	case "message":
		return l.Message != nil && l.Message.Operator && l.What == ""
	case "control", "reset":
		return true
	case "edge":
		return l.answersQuestion()
	case "sleep":
		return l.What == state.WordRetried
	case "halt":
		return l.From == "here"
	case "turn":
		return l.What == state.WordStop
	}
	return false
}

// begun checks that a turn of the agent's own may begin.
func (k *streak) begun(v *historyChecker, l line) {
	if k.turns++; k.turns > selfTurns {
		v.broken("self", "turn %s is the agent's own, and the %dth since its operator was heard", l.TurnID, k.turns)
	}
	if k.turns == selfTurns {
		v.happened("the agent used up its turns")
	}
	if v.halted.any() {
		v.broken("self", "turn %s of the agent's own begins under HALT", l.TurnID)
	}
	if v.tier != "" && v.tier != string(state.TierNormal) {
		v.broken("self", "turn %s of the agent's own begins in tier %s", l.TurnID, v.tier)
	}
}

// checkSelf checks that each row of the agent itself had one turn or a recorded ending, and that
// its answers to the operator, and only those, reached the operator.
func (w *World) checkSelf(h history) {
	for _, l := range h.lines {
		if l.Kind != "message" || l.Source != "self" || l.Message == nil {
			continue
		}
		w.checkOneEnd("self", h, l.Key)
		for _, task := range h.tasks[l.Key] {
			w.checkSelfReply(h, task, l.Message.Operator)
		}
	}
}

// checkOneEnd checks that a row without a sender had one turn, or a recorded ending.
func (w *World) checkOneEnd(rule string, h history, key string) {
	ended := h.any(func(e line) bool { return e.Kind == "ended" && e.Key == key })
	if n := len(h.tasks[key]); n > 1 || (n == 1) == ended {
		w.violate(rule, "%s had %d turns; ended without one: %v", key, n, ended)
	}
}

// checkSelfReply checks that the answer of a turn of the agent's own was mailed, or not.
func (w *World) checkSelfReply(h history, task line, forOperator bool) {
	text, err := w.deliverable(task)
	if err != nil {
		return // a fault struck it; every deliverable is checked elsewhere
	}
	mails, wanted := len(w.record.mailed(replyKind+task.TurnID)), 0
	if forOperator && !(task.Outcome == state.Success && strings.HasPrefix(text, "Nothing.")) {
		wanted = 1
	}
	if mails == wanted || wanted == 1 && h.undeliverable(replyKind) {
		return
	}
	w.violate("self", "the turn %s of the agent's own (%s) was mailed %d times, want %d: %q", task.TurnID, task.Outcome, mails, wanted, text)
}

// withoutSelf returns the replies to messages. It leaves out the replies of turns that the agent
// planned or the clock has caused, which have a conversation of their own, and those of turns for
// late reports.
func withoutSelf(h history, all map[string][]*outgoing) map[string][]*outgoing {
	for id, list := range all {
		if all[id] = slices.DeleteFunc(list, h.isSelf); len(all[id]) == 0 {
			delete(all, id)
		}
	}
	return all
}

// isSelf reports whether the turn of a reply was planned by the agent, or is that of a
// late report, or would have been.
func (h history) isSelf(o *outgoing) bool {
	turn, _ := strings.CutPrefix(effectOf(o.id), replyKind)
	task := h.ends[turn]
	for _, row := range append(slices.Clone(task.Collected), state.Message{Key: task.Key}) {
		if strings.HasPrefix(row.Key, "self:") || strings.HasPrefix(row.Key, "prompt:") || strings.HasPrefix(row.Key, followUpKey) {
			return true
		}
	}
	return h.any(func(edge line) bool { // the message that a late report belongs to was damaged
		return edge.is("edge", state.WordReport) && edge.Response == o.id && h.any(func(l line) bool {
			return l.Serial == edge.Serial && l.is("ended", "error") && strings.HasPrefix(l.Key, followUpKey)
		})
	})
}

// maxNaps is for how many turns that the agent has planned calm waits.
const maxNaps = 60

// awaitSelf waits for the next planned turn: for its time, for the next day if money is short, or
// for a word of the operator, which it gives. It reports whether a turn was planned.
func (w *World) awaitSelf(s view.Status) bool {
	if len(s.Self.Wakeups) == 0 {
		return false
	}
	next := s.Self.Wakeups[0]
	if ahead := next.At.Sub(w.clock.machine()); ahead > 0 {
		w.clock.pass(ahead + time.Second)
	}
	if s.Tier != state.TierNormal {
		w.sleepOver() // the money of another day
		return true
	}
	for _, row := range s.Self.Wakeups {
		if strings.HasPrefix(row.Held, "money is short") { // of the day's budget: the credit was filled up
			w.sleepOver()
			break
		}
		if row.Held != "" {
			w.run("halt", nil, func(ctx context.Context, a *cycle.Agent) error { _, err := a.Halt(ctx, ""); return err })
			w.run("go", nil, func(ctx context.Context, a *cycle.Agent) error { _, err := a.Resume(ctx, ""); return err })
			break
		}
	}
	return true
}
