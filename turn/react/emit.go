package react

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/turn"
)

const (
	pieceInterval = 200 * time.Millisecond // how long the emitter gathers pieces of text
	maxPiece      = 4 << 10                // bytes; a longer text is emitted at once
)

// textEmitter collects the text of answers and emits it in larger pieces.
type textEmitter struct {
	emit func(turn.Event)

	said    bool            // this process has emitted or gathered text
	inside  bool            // the current answer has text
	waiting strings.Builder // not yet emitted
	emitted time.Time       // when text was last emitted
}

// begin separates the next answer from the text before it.
func (s *textEmitter) begin() { s.inside = false }

// add adds a piece of an answer's text.
func (s *textEmitter) add(text string) {
	if s.said && !s.inside {
		s.waiting.WriteString("\n\n")
	}
	s.said, s.inside = true, true
	s.waiting.WriteString(text)
	if s.waiting.Len() >= maxPiece || time.Since(s.emitted) >= pieceInterval {
		s.flush()
	}
}

// flush emits the waiting text.
func (s *textEmitter) flush() {
	if s.waiting.Len() > 0 {
		s.emit(turn.Event{Kind: turn.TextDelta, Text: s.waiting.String()})
		s.emitted = time.Now()
	}
	s.waiting.Reset()
}

// end emits the end of the run.
func (l *Loop) end(ctx context.Context, end runEnd) error {
	if end.cut == "" && l.conversation.ended.After == "" && !l.conversation.succeeded["sleep"] && !l.conversation.succeeded["ask"] {
		if err := l.Rest(ctx); err != nil {
			return l.fail(err)
		}
	}
	e := l.done()
	e.Cut = end.cut
	if len(end.text) <= turn.DefaultMaxText { // a longer text is in the text events
		e.Text = end.text
	}
	l.Emit(e)
	return nil
}

// fail emits the failure of the run and returns the error of Run.
func (l *Loop) fail(err error) error {
	if classify(err) == refused {
		l.Emit(turn.Event{Kind: turn.Error, Text: turn.APIRefused + err.Error()})
	}
	e := limited(l.done(), err, time.Now())
	e.Failed, e.Text = true, err.Error()
	l.Emit(e)
	if b, ok := errors.AsType[*internalError](err); ok {
		return b
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// done returns the last event, with the usage of all requests.
func (l *Loop) done() turn.Event {
	return turn.Event{Kind: turn.Done, Usage: l.meter.usage, CostUSD: l.meter.costUSD}
}
