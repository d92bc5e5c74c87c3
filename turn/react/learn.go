package react

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentstateloop/turn"
)

// maxLessons is how many refusals of one question may teach how to ask it.
const maxLessons = 8

// minWindow is the smallest window, in tokens, that a question is made to fit.
const minWindow = 1024

// Lessons keeps what was learned about the models of one address. It may be nil: then each run
// learns it again.
type Lessons interface {
	Of(model string) Lesson
	Learn(model string, l Lesson) error
}

// lesson returns what is known about a model.
func (l *Loop) lesson(model string) Lesson {
	known := l.learned[model]
	if l.Lessons != nil {
		known = l.Lessons.Of(model).With(known)
	}
	return known
}

// shape returns the shape of the requests to a model.
func (l *Loop) shape(model string) Shape { return l.Shape.withLesson(l.lesson(model)) }

// recallLesson makes the window as small as that of the model is known to be.
func (l *Loop) recallLesson(model string) {
	if known := l.lesson(model).Window; known > 0 {
		l.Window = min(l.Window, known)
	}
}

// keepLesson keeps what was learned, for this run and for later ones. Those do without it if it
// cannot be kept.
func (l *Loop) keepLesson(model string, lesson Lesson) {
	if l.learned == nil {
		l.learned = map[string]Lesson{}
	}
	l.learned[model] = l.learned[model].With(lesson)
	if l.Lessons == nil {
		return
	}
	if err := l.Lessons.Learn(model, lesson); err != nil {
		l.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("what was learned about %s is not kept: %v", model, err)})
	}
}

// learn changes how the model is asked after it has refused q. It reports whether to ask again.
// Its error means that the run cannot go on.
func (l *Loop) learn(ctx context.Context, q Question, refusal error) (bool, error) {
	class := classify(refusal)
	if class == tooLong || isVague(refusal) && l.conversation.tokens(len(l.System)) > int64(l.Window)/2 {
		return l.shrink(ctx, q, class == tooLong)
	}
	f, ok := errors.AsType[*Fault](refusal)
	if !ok || class != fatal {
		return false, nil
	}
	lesson, what, ok := q.Shape.lesson(f, q)
	if !ok {
		return false, nil
	}
	l.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("%v; %s", refusal, what)})
	l.keepLesson(q.Model, lesson)
	return true, nil
}

// shrink makes the conversation fit a window that is smaller than what was sent. If sure, the
// server has said that it is.
func (l *Loop) shrink(ctx context.Context, q Question, sure bool) (bool, error) {
	sent := int(l.conversation.tokens(len(l.System)))
	smaller := max(minWindow, min(l.Window, sent+l.maxOutput())/2)
	if smaller >= l.Window {
		return false, nil
	}
	l.Window = smaller
	if sure {
		l.keepLesson(q.Model, Lesson{Window: smaller})
	}
	if l.conversation.answers == 0 && !l.conversation.summed {
		return l.shorten()
	}
	if !l.canSummarise() {
		return false, nil
	}
	return true, l.compact(ctx)
}

// shorten puts a shorter message in the place of the one that the run began with: with less of
// what was said before, or else its end.
func (l *Loop) shorten() (bool, error) {
	if len(l.conversation.messages) == 0 {
		return false, nil
	}
	room := l.Window*bytesPerToken/2 - len(l.System)
	text := l.conversation.messages[0].Text
	if l.Shorter != nil {
		shorter, err := l.Shorter(max(0, room))
		if err != nil {
			return false, &internalError{err}
		}
		if len(shorter) < len(text) {
			text = shorter
		}
	}
	if room = max(room, minWindow); len(text) > room {
		text = lastOf(text, room)
	}
	l.Emit(turn.Event{Kind: turn.Error, Text: "the message is longer than the model takes, so less of what was said before is shown"})
	return true, l.keep(Step{Kind: StepShorter, Text: text})
}

// cutBytes is how many bytes a token has at most, on average. A server that counts fewer tokens
// has not read all of the question.
const cutBytes = 12

// noteCut tells once that a server has left out a part of a question without a word, which it
// shows by its count. A count below any window means something else, such as what a cache held.
func (l *Loop) noteCut(q Question, a Answer) {
	u := a.Reported
	read, size := u.Input+u.CacheRead+u.CacheWrite, q.size()
	if read < minWindow || read >= int64(size)/cutBytes || l.lesson(q.Model).Cut {
		return
	}
	l.Emit(turn.Event{Kind: turn.Note, Text: fmt.Sprintf("the server of %s has read %d tokens of a question of about %d and said nothing: set context_window in [api] to what it can hold", q.Model, read, size/bytesPerToken)})
	l.keepLesson(q.Model, Lesson{Cut: true})
}

// lastOf returns the end of a text, at most about n bytes of it: the question stands there.
func lastOf(text string, n int) string { return "[…]" + strings.ToValidUTF8(text[len(text)-n:], "") }
