package react

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentstateloop/turn"
)

// maxLessons bounds the refusals of one question that may teach us how to ask it.
const maxLessons = 8

// minWindow is the smallest window, in tokens, that a question is shortened to.
const minWindow = 1024

// Lessons keeps the lessons about the models of one address. If it is nil, each run learns them
// again.
type Lessons interface {
	Of(model string) Lesson
	Learn(model string, l Lesson) error
}

// lesson returns the lessons about a model.
func (l *Loop) lesson(model string) Lesson {
	known := l.learned[model]
	if l.Lessons != nil {
		known = l.Lessons.Of(model).With(known)
	}
	return known
}

// shape returns the shape of the requests to a model.
func (l *Loop) shape(model string) Shape { return l.Shape.withLesson(l.lesson(model)) }

// applyKnownWindow reduces the window to the known window of the model.
func (l *Loop) applyKnownWindow(model string) {
	if known := l.lesson(model).Window; known > 0 {
		l.Window = min(l.Window, known)
	}
}

// keepLesson keeps a lesson, for this run and for later ones. If saving it fails, later runs do
// without it.
func (l *Loop) keepLesson(model string, lesson Lesson) {
	if l.learned == nil {
		l.learned = map[string]Lesson{}
	}
	l.learned[model] = l.learned[model].With(lesson)
	if l.Lessons == nil {
		return
	}
	if err := l.Lessons.Learn(model, lesson); err != nil {
		l.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("cannot save the request settings learned for %s: %v", model, err)})
	}
}

// learn changes the requests to a model that refused q. It reports whether to ask again. An
// error means that the run cannot go on.
func (l *Loop) learn(ctx context.Context, q Question, refusal error) (bool, error) {
	class := classify(refusal)
	if class == tooLongError || isVague(refusal) && l.conversation.tokens(len(l.System)) > int64(l.Window)/2 {
		return l.shrink(ctx, q, class == tooLongError)
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

// shrink makes the conversation fit a smaller window. If sure, the server has said that the
// conversation is too long.
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
	if l.conversation.answers == 0 && !l.conversation.hasSummary {
		return l.shorten()
	}
	if !l.canSummarise() {
		return false, nil
	}
	return true, l.compact(ctx)
}

// shorten replaces the first message of the run by a shorter one: with less of the earlier
// conversation, or else only its end.
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
		text = tailOf(text, room)
	}
	l.Emit(turn.Event{Kind: turn.Error, Text: "the prompt exceeds the context window of the model: retrying with less history"})
	return true, l.addStep(Step{Kind: StepShorter, Text: text})
}

// maxBytesPerToken is the most bytes that a token has on average. A server that counts fewer tokens
// has not read the whole question.
const maxBytesPerToken = 12

// reportTruncation reports once that a server silently cut a question, judging by its token count.
// A count below minWindow has another reason, such as cached tokens.
func (l *Loop) reportTruncation(q Question, a Answer) {
	u := a.Reported
	read, size := u.Input+u.CacheRead+u.CacheWrite, q.size()
	if read < minWindow || read >= int64(size)/maxBytesPerToken || l.lesson(q.Model).Cut {
		return
	}
	l.Emit(turn.Event{Kind: turn.Note, Text: fmt.Sprintf("the server of %s silently truncated the prompt: it read %d of about %d tokens; set context_window in [api] to its real window", q.Model, read, size/bytesPerToken)})
	l.keepLesson(q.Model, Lesson{Cut: true})
}

// tailOf returns the end of a text, about n bytes of it, because the question is at the end.
func tailOf(text string, n int) string { return "[…]" + strings.ToValidUTF8(text[len(text)-n:], "") }
