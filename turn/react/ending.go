package react

import (
	"context"
	"fmt"
	"time"
)

// After is the consequence of a call.
type After string

// The consequences of a call. Continue means the next request; "" means the same.
const (
	Continue  After = "continue"
	Suspend   After = "suspend"   // the turn waits for a later report
	Terminate After = "terminate" // the turn is over
)

// Ending is the error of a call that succeeded and ends the run.
type Ending struct {
	After After
	Text  string // the result; with Terminate, the last words of the run
}

// Error returns the result.
func (e Ending) Error() string { return e.Text }

// notRun returns why a call is not run after a call that ended the run.
func notRun(after After) string {
	switch after {
	case Suspend:
		return "a call before it suspended your turn. Make it again, if you still need it, when the turn goes on."
	case Terminate:
		return "a call before it ended your turn."
	}
	return ""
}

// endCalled returns the end of a run that a call ended. A later attempt may repeat it: its
// effects are idempotent.
func (l *Loop) endCalled(ctx context.Context) (*runEnd, error) {
	for _, c := range append([]Call(nil), l.conversation.open...) {
		if err := l.refuseCall(c, notRun(l.conversation.ended.After)); err != nil {
			return nil, err
		}
	}
	if l.conversation.ended.After != Terminate {
		return &runEnd{}, nil
	}
	if l.Finish != nil {
		if err := l.Finish(ctx); err != nil {
			return nil, err
		}
	}
	text := l.conversation.ended.Text
	l.speech.add(text)
	l.speech.flush()
	return &runEnd{text: text}, nil
}

// suspended returns the text by which the model learns that its turn waits.
func suspended(id string, wait time.Duration) string {
	return fmt.Sprintf("[Your turn waits now for the report on this, %s, for %v at most. It goes on with the report.]", id, wait)
}
