package react

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentstateloop/turn"
)

// ask sends the conversation to the model. It retries after transient faults, while there is
// time, and after faults that teach how to ask this server.
func (l *Loop) ask(ctx context.Context) (Answer, error) {
	begun, lessons, brokenOff := time.Now(), 0, ""
	for n := 0; ; n++ {
		o, err := l.check(ctx)
		if err != nil {
			return Answer{}, err
		}
		if err := l.note(o); err != nil {
			return Answer{}, err
		}
		model := l.Names.pick(o)
		l.applyKnownWindow(model)
		q := Question{Model: model, System: l.System, Messages: l.questionMessages(model), Tools: l.Tools, MaxOutput: l.maxOutput(), Shape: l.shape(model)}
		l.speech.begin()
		answer, err := l.query(ctx, q, l.speech.add)
		l.speech.flush()
		if err == nil {
			l.reportTruncation(q, answer)
			l.nameCalls(&answer)
			return answer, nil
		}
		if ctx.Err() != nil {
			return answer, err
		}
		if errors.Is(err, errBrokenOff) && answer.Text != "" {
			if answer.Text == brokenOff {
				return answer, &Fault{Status: http.StatusOK, Text: "connection lost twice at the same place in the answer: giving up"}
			}
			brokenOff = answer.Text
		}
		if len(answer.Text) > 0 {
			l.Emit(turn.Event{Kind: turn.TextDelta, Text: "\n[Connection lost. The answer starts again.]"})
		}
		if refusesFiles(err) && q.hasFiles() {
			if err := l.dropFiles(err); err != nil {
				return answer, err
			}
			continue
		}
		if lessons++; lessons <= maxLessons {
			learned, err := l.learn(ctx, q, err)
			if err != nil {
				return answer, err
			}
			if learned {
				continue
			}
		}
		if err := l.backOff(ctx, n, begun, err); err != nil {
			return answer, err
		}
	}
}

// note adds the notes of o to the conversation before the model's next answer.
func (l *Loop) note(o CheckResult) error {
	all := o.Notes
	if l.conversation.calls == l.maxCalls()-1 {
		all = append(slices.Clone(all), "This is your last answer for now, and its calls will not be run: report what you have.")
	}
	var notes []string
	for _, n := range all {
		if !l.seenNotes[n] {
			l.seenNotes[n] = true
			notes = append(notes, n)
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return l.addStep(Step{Kind: StepNote, Text: "[" + strings.Join(notes, " ") + "]"})
}

// query makes one request and reports its expense to Spent.
func (l *Loop) query(ctx context.Context, q Question, say func(string)) (Answer, error) {
	think := &thinkFilter{say: say}
	answer, err := l.Model.Answer(ctx, q, think.add)
	think.end()
	answer.Text = turn.WithoutThoughts(answer.Text)
	for _, what := range answer.Unread {
		l.Emit(turn.Event{Kind: turn.Error, Text: "cannot parse part of the answer: " + what})
	}
	answer.Unread = nil
	answer.Reported = answer.Usage
	answer.Usage = estimateUsage(q, answer, err == nil)
	if answer.Usage == (turn.Usage{}) {
		return answer, err
	}
	number := l.meter.add(answer)
	if err := l.Spent(ctx, Expense{Number: number, Model: q.Model, Usage: answer.Usage, CostUSD: answer.CostUSD}); err != nil {
		return answer, &internalError{err}
	}
	return answer, err
}

// nameCalls replaces each call id that the APIs do not accept or that another call has.
func (l *Loop) nameCalls(a *Answer) {
	ids, seen := l.conversation.ids, map[string]bool{}
	for i := range a.Calls {
		c := &a.Calls[i]
		for n := i + 1; c.ID == "" || c.ID != sanitizeName(c.ID) || ids[c.ID] || seen[c.ID]; n++ {
			c.ID = fmt.Sprintf("call_%d_%d", len(ids)+1, n)
		}
		seen[c.ID] = true
	}
}

// maxBackoff bounds the wait before the next try.
const maxBackoff = time.Minute

// maxPatience bounds the time for retries of one question. After it the message waits outside
// of a turn, for minutes or for as long as the API says.
const maxPatience = 2 * time.Minute

// pause returns the wait after the n-th fault. chance is from 0 to 1; it spreads the retries of
// many clients. If the API asks for a longer wait, pause returns that.
func (l *Loop) pause(n int, fault error, chance float64) time.Duration {
	wait := min(l.Backoff<<min(n, 16), maxBackoff)
	wait += time.Duration((chance - 0.5) * float64(wait) / 2)
	if f, ok := errors.AsType[*Fault](fault); ok {
		wait = max(wait, f.RetryAfter)
	}
	return wait
}

// backOff waits before the next try after the n-th fault of a question first asked at begun. It
// returns the fault if another try makes no sense.
func (l *Loop) backOff(ctx context.Context, n int, begun time.Time, fault error) error {
	if _, ours := errors.AsType[*internalError](fault); ours || classify(fault) != transient {
		return fault
	}
	wait := l.pause(n, fault, rand.Float64())
	next := time.Now().Add(wait)
	if late := !l.Deadline.IsZero() && next.After(l.Deadline); late || next.Sub(begun) > maxPatience {
		return fmt.Errorf("%w (tries: %d)", fault, n+1)
	}
	l.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("%v; retrying in %v", fault, wait.Round(100*time.Millisecond))})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
