package react

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"agentstateloop/turn"
)

// ask puts the conversation to the model. It tries again after faults that may
// pass, while there is time.
func (l *Loop) ask(ctx context.Context) (Answer, error) {
	shrunk := false
	for n := 0; ; n++ {
		o, err := l.check(ctx)
		if err != nil {
			return Answer{}, err
		}
		if err := l.note(o); err != nil {
			return Answer{}, err
		}
		model := l.Names.pick(o)
		q := Question{Model: model, System: l.System, Messages: l.visible(model), Tools: l.Tools, MaxOutput: l.maxOutput()}
		l.speech.begin()
		answer, err := l.query(ctx, q, l.speech.add)
		l.speech.flush()
		if err == nil {
			l.nameCalls(&answer)
			return answer, nil
		}
		if ctx.Err() != nil {
			return answer, err
		}
		if len(answer.Text) > 0 {
			l.Emit(turn.Event{Kind: turn.TextDelta, Text: "\n[The connection broke off here. The answer begins again.]"})
		}
		if refusesShown(err) && q.shows() {
			if err := l.blinded(err); err != nil {
				return answer, err
			}
			continue
		}
		if classify(err) == tooLong && !shrunk && l.canSummarise() {
			shrunk = true
			if err := l.compact(ctx); err != nil {
				return answer, err
			}
			continue
		}
		if err := l.backOff(ctx, n, err); err != nil {
			return answer, err
		}
	}
}

// note adds the notes of o to the conversation, for the next answer of the model.
func (l *Loop) note(o Outlook) error {
	all := o.Notes
	if l.conversation.calls == l.maxCalls()-1 {
		all = append(slices.Clone(all), "This is your last answer for now, and its calls will not be run: say what you have.")
	}
	var notes []string
	for _, n := range all {
		if !l.noted[n] {
			l.noted[n] = true
			notes = append(notes, n)
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return l.keep(Step{Kind: StepNote, Text: "[" + strings.Join(notes, " ") + "]"})
}

// query makes one request and reports its expense to Spent.
func (l *Loop) query(ctx context.Context, q Question, say func(string)) (Answer, error) {
	answer, err := l.Model.Answer(ctx, q, say)
	answer.Usage = used(q, answer, err == nil)
	if answer.Usage == (turn.Usage{}) {
		return answer, err
	}
	number := l.meter.add(answer)
	if err := l.Spent(ctx, Expense{Number: number, Model: q.Model, Usage: answer.Usage, CostUSD: answer.CostUSD}); err != nil {
		return answer, &internalError{err}
	}
	return answer, err
}

// nameCalls makes the id of each call one that the APIs take and no other call
// has.
func (l *Loop) nameCalls(a *Answer) {
	ids, seen := l.conversation.ids, map[string]bool{}
	for i := range a.Calls {
		c := &a.Calls[i]
		for n := i + 1; c.ID == "" || c.ID != sendable(c.ID) || ids[c.ID] || seen[c.ID]; n++ {
			c.ID = fmt.Sprintf("call_%d_%d", len(ids)+1, n)
		}
		seen[c.ID] = true
	}
}

// maxBackoff bounds the wait before the next try.
const maxBackoff = time.Minute

// pause returns how long to wait after the n-th fault. chance is from 0 to 1, so that many
// clients do not come back at once. What the API asks for counts if it is longer.
func (l *Loop) pause(n int, fault error, chance float64) time.Duration {
	wait := min(l.Backoff<<min(n, 16), maxBackoff)
	wait += time.Duration((chance - 0.5) * float64(wait) / 2)
	if f, ok := errors.AsType[*Fault](fault); ok {
		wait = max(wait, f.RetryAfter)
	}
	return wait
}

// backOff waits before the next try after the n-th fault. It returns the fault
// if no further try makes sense.
func (l *Loop) backOff(ctx context.Context, n int, fault error) error {
	if _, ours := errors.AsType[*internalError](fault); ours || classify(fault) != transient {
		return fault
	}
	wait := l.pause(n, fault, rand.Float64())
	if !l.Deadline.IsZero() && time.Now().Add(wait).After(l.Deadline) {
		return fmt.Errorf("%w (tries: %d; the next would come in %v, after the end of the turn)", fault, n+1, wait.Round(time.Second))
	}
	l.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("%v; trying again in %v", fault, wait.Round(100*time.Millisecond))})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
