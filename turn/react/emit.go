package react

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"agentstateloop/turn"
)

// What a Loop tells the process that started it.

const (
	sayEvery = 200 * time.Millisecond // pieces of text are gathered for so long
	sayMost  = 4 << 10                // or until there are so many bytes
)

// say is told each piece of an answer's text. The first separates it from what
// was said before.
func (l *Loop) say(text string) {
	if l.said && !l.saying {
		l.stream.WriteString("\n\n")
	}
	l.said, l.saying = true, true
	l.stream.WriteString(text)
	if l.stream.Len() >= sayMost || time.Since(l.shown) >= sayEvery {
		l.flush()
	}
}

func (l *Loop) flush() {
	if l.stream.Len() > 0 {
		l.Emit(turn.Event{Kind: turn.TextDelta, Text: l.stream.String()})
		l.shown = time.Now()
	}
	l.stream.Reset()
}

// end tells that the wake is over. What is not all of an answer is what was
// said in the course of it.
func (l *Loop) end(ctx context.Context, o wakeEnd) error {
	if o.cut == "" && !l.conversation.succeeded["sleep"] && !l.conversation.succeeded["ask"] {
		if err := l.Rest(ctx); err != nil {
			return l.fail(err)
		}
	}
	e := l.done()
	e.Cut = o.cut
	if len(o.text) <= turn.DefaultMaxText { // a longer one was said already
		e.Text = o.text
	}
	l.Emit(e)
	return nil
}

// fail tells that the wake came to nothing.
func (l *Loop) fail(err error) error {
	if classify(err) == refused {
		l.Emit(turn.Event{Kind: turn.Error, Text: turn.APIRefused + err.Error()})
	}
	e := l.done()
	e.Failed, e.Text = true, err.Error()
	l.Emit(e)
	if b, ok := errors.AsType[*broken](err); ok {
		return b
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

func (l *Loop) done() turn.Event {
	return turn.Event{Kind: turn.Done, Usage: l.spent, CostUSD: l.cost}
}

// backOff waits before the next try after the n-th fault; its error says that
// there is none.
func (l *Loop) backOff(ctx context.Context, n int, fault error) error {
	if _, ours := errors.AsType[*broken](fault); ours || classify(fault) != transient {
		return fault
	}
	wait := min(l.Backoff<<min(n, 16), maxBackoff)
	wait += time.Duration((rand.Float64() - 0.5) * float64(wait) / 2) // so that many do not come back at once
	if f, ok := errors.AsType[*Fault](fault); ok {
		wait = max(wait, f.RetryAfter)
	}
	if !l.Deadline.IsZero() && time.Now().Add(wait).After(l.Deadline) {
		return fmt.Errorf("%w (%d tries; the next would come in %v, after the turn's time)", fault, n+1, wait.Round(time.Second))
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
