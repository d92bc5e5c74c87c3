package react

import (
	"context"
	"fmt"
	"time"
)

// After is what follows a call.
type After string

// What may follow a call. Continue, the next request, is also said by "".
const (
	Continue  After = "continue"
	Suspend   After = "suspend"   // the turn waits for what is reported later
	Terminate After = "terminate" // the turn is over
)

// Ending is the error of a call that succeeded and ends the run.
type Ending struct {
	After After
	Text  string // the result; the last words of a run that is over
}

// Error returns the result.
func (e Ending) Error() string { return e.Text }

// notRun returns why a call is not run that stands behind one which ended the run.
func notRun(after After) string {
	switch after {
	case Suspend:
		return "a call before it suspended your turn. Make it again, if you still need it, when the turn goes on."
	case Terminate:
		return "a call before it ended your turn."
	}
	return ""
}

// endCalled returns the end of a run that a call has ended. It may be called again in a
// later attempt: all it does is idempotent.
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

// suspended is what the model reads of a call after which its turn waits.
func suspended(id string, wait time.Duration) string {
	return fmt.Sprintf("[Your turn waits now for the report on this, %s, for %v at most. It goes on with the report.]", id, wait)
}
