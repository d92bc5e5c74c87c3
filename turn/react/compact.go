package react

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/turn"
)

// Thresholds for the use of the window, in percent. From warnAt on the loop warns the model.
// From compactAt on it replaces the conversation by a summary.
const (
	warnAt    = 75
	compactAt = 90
)

// maxUselessSummaries bounds consecutive summaries that failed or did not help. After that many
// the run requests no more of them.
const maxUselessSummaries = 2

// canSummarise reports whether the run may still make two requests: one for a summary and one
// for an answer.
func (l *Loop) canSummarise() bool { return l.conversation.calls < l.maxCalls()-1 }

// fitWindow keeps the conversation within the window.
func (l *Loop) fitWindow(ctx context.Context) error {
	full := l.conversation.tokens(len(l.System)) * 100 / int64(l.Window)
	switch {
	case full >= compactAt && l.conversation.uselessSummaries < maxUselessSummaries && l.canSummarise():
		return l.compact(ctx)
	case full >= warnAt && !l.conversation.warned:
		return l.addStep(Step{Kind: StepWarning, Text: fmt.Sprintf("[Your context window is %d%% full. At %d%% a summary replaces this conversation: write down anything that you must not lose.]", full, compactAt)})
	}
	return nil
}

// compact replaces the conversation by a summary. If the summary fails, the conversation stays
// unchanged.
func (l *Loop) compact(ctx context.Context) error {
	l.Emit(turn.Event{Kind: turn.Thinking, Text: "summarizing the conversation"})
	room := l.Window / 100 * warnAt * bytesPerToken
	answer, err := l.summarise(ctx, "The record of your work so far:\n\n"+transcript(l.conversation.messages, room)+l.Brief)
	if err == nil {
		return l.addStep(Step{Kind: StepSummary, Text: l.summaryMessage(answer.Text)})
	}
	_, isOver := errors.AsType[runOverError](err)
	_, ours := errors.AsType[*internalError](err)
	if ctx.Err() != nil || isOver || ours || classify(err) == refused {
		return err
	}
	l.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("the summary failed, so the conversation continues unchanged: %v", err)})
	return l.addStep(Step{Kind: StepSummary, Failed: true})
}

// Summary asks for a summary outside of a run. text is the question. Summary does not need
// Tools, Steps or Rest. The last event is Done, with the usage of all requests. The error is
// ErrFailed, the cause of ctx, or an error after which this process must do no more work.
func (l *Loop) Summary(ctx context.Context, text string) error {
	l.prepare()
	answer, err := l.summarise(ctx, text)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return l.fail(err)
	}
	e := l.done()
	e.Text = answer.Text
	l.Emit(e)
	return nil
}

// summarise asks for a summary. It retries after transient faults while there is time.
func (l *Loop) summarise(ctx context.Context, text string) (Answer, error) {
	begun, lessons := time.Now(), 0
	for n := 0; ; n++ {
		o, err := l.check(ctx)
		if err != nil {
			return Answer{}, err
		}
		model := cmp.Or(l.Names.Summary, l.Names.pick(o))
		q := Question{Model: model, Messages: []Message{{Text: text}}, MaxOutput: min(l.MaxOutput, max(1, l.Window/2)), Shape: l.shape(model)}
		answer, err := l.query(ctx, q, func(string) {})
		switch {
		case err == nil && answer.Stop != StopEnd:
			return answer, fmt.Errorf("the summary is incomplete: %s", cmp.Or(answer.Word, "no stop reason"))
		case err == nil && strings.TrimSpace(answer.Text) == "":
			return answer, errors.New("the summary is empty")
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return answer, err
		}
		if f, ok := errors.AsType[*Fault](err); ok && lessons < maxLessons {
			if lesson, _, taught := q.Shape.lesson(f, q); taught {
				lessons++
				l.keepLesson(model, lesson)
				continue
			}
		}
		if err := l.backOff(ctx, n, begun, err); err != nil {
			return answer, err
		}
	}
}

// summaryMessage returns the message that replaces a conversation: the first message, truncated
// only if it is very long, and the summary.
func (l *Loop) summaryMessage(summary string) string {
	task := ""
	if len(l.conversation.messages) > 0 {
		task = l.conversation.messages[0].Text
	}
	for _, mark := range []string{summaryMark, oldSummaryMark} {
		task, _, _ = strings.Cut(task, mark)
	}
	if most := l.Window * bytesPerToken / 8; len(task) > most {
		task = tailOf(task, most)
	}
	if len(l.conversation.shownFiles()) > 0 {
		task += "\n\n[The files shown earlier are no longer visible. Use read_file to see one again.]"
	}
	return strings.TrimSpace(task) + summaryMark + strings.TrimSpace(summary)
}

// summaryMark separates the two parts of a summary message. Steps of earlier versions have
// oldSummaryMark in its place.
const (
	summaryMark    = "\n\n[A summary of your work since then replaces the conversation. Continue from it.]\n\n"
	oldSummaryMark = "\n\n[What you did since, as a summary, which stands for all that was said. Go on from it.]\n\n"
)

// shortestPart is the smallest limit, in bytes, for a part of a shortened transcript. The last
// try uses half of it.
const shortestPart = 64

// transcript returns a conversation as a text of at most about room bytes. If the text is too
// long, transcript keeps only the beginnings of the longest parts.
func transcript(messages []Message, room int) string {
	for most := maxResult; ; most /= 2 {
		var b strings.Builder
		part := func(who, text string) {
			if len(text) > most {
				text = truncate(text, most)
			}
			fmt.Fprintf(&b, "## %s\n%s\n\n", who, text)
		}
		for _, m := range messages {
			for _, r := range m.Results {
				part("result of call "+r.ID, r.Text)
			}
			for _, s := range m.Shown {
				part("shown to you", s.Name+" ("+s.Type+")")
			}
			who := "input"
			if m.Model {
				who = "you"
			}
			if m.Text != "" {
				part(who, m.Text)
			}
			for _, c := range m.Calls {
				part("you call "+c.Name+" as "+c.ID, c.Args)
			}
		}
		if b.Len() <= room || most < shortestPart {
			return b.String()[:min(b.Len(), room)]
		}
	}
}
