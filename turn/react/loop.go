package react

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/turn"
)

// Loop is one run of the agent: it asks a model, runs the tools that the model calls, and asks
// again, until the model stops.
type Loop struct {
	Settings
	Callbacks

	conversation *conversation
	speech       textEmitter
	meter        meter
	seenNotes    map[string]bool // notes that the model has seen

	learned map[string]Lesson // lessons of this run, by model

	// Set while money is short: see applyBudget.
	low      bool
	lowCalls int
}

// Fixed bounds.
const (
	maxSameCall = 3 // runs of the same call; the next one ends the run
	maxBlanks   = 2 // consecutive empty answers; the next one ends the run
)

// ErrFailed is the error of a failed run. The run emitted the reason as an event.
var ErrFailed = errors.New("inference failed")

// Run gives the agent a message. In a turn that an earlier attempt began, Run continues where
// that attempt ended. With again, message is the message of that attempt, and the same run
// continues. Otherwise message begins the turn's next run.
//
// Run reports everything to Emit. The last event is Done, unless ctx ended the run. The error
// is ErrFailed, the cause of ctx, or an error after which this process must do no more work.
func (l *Loop) Run(ctx context.Context, message string, again bool) error {
	l.prepare()
	l.Emit(turn.Event{Kind: turn.SessionStart})
	l.conversation = newConversation(l.Steps.Past)
	if again && l.conversation.ending.After != "" {
		end, err := l.endByCall(ctx)
		if err != nil {
			return l.fail(err)
		}
		return l.end(ctx, *end)
	}
	if text, ok := l.finishedAnswer(); ok && again {
		l.speech.add(text)
		l.speech.flush()
		return l.end(ctx, runEnd{text: text})
	}
	if err := l.begin(message, again); err != nil {
		return l.fail(err)
	}
	for {
		end, err := l.step(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return l.fail(err)
		case end != nil:
			return l.end(ctx, *end)
		}
	}
}

// prepare fills in the defaults and resets the state of this process.
func (l *Loop) prepare() {
	l.Settings = l.Settings.withDefaults()
	l.speech = textEmitter{emit: l.Emit}
	l.meter = meter{}
	l.seenNotes = map[string]bool{}
	l.low = false
}

// applyBudget halves the limits of the run when money is short: its calls, the tools of an answer
// and the length of an answer. A run that has already made that many calls gets one more, for its
// last words.
func (l *Loop) applyBudget(o CheckResult) {
	if o.Low && !l.low {
		l.lowCalls = max(half(l.MaxCalls), l.conversation.calls+1)
	}
	l.low = o.Low
}

func (l *Loop) maxCalls() int {
	if l.low {
		return min(l.lowCalls, l.MaxCalls)
	}
	return l.MaxCalls
}

func (l *Loop) maxTools() int {
	if l.low {
		return half(l.MaxTools)
	}
	return l.MaxTools
}

func (l *Loop) maxOutput() int {
	most := min(l.MaxOutput, max(1, l.Window/2))
	if l.low {
		return half(most)
	}
	return most
}

// finishedAnswer returns the last words of a run that had ended when its process died. They are the
// answer: if asked again, the model would say that it has answered already. After ask they are
// not the answer, because they only announce that the turn waits.
func (l *Loop) finishedAnswer() (text string, ok bool) {
	past := l.Steps.Past
	if len(past) == 0 || l.conversation.succeeded["ask"] {
		return "", false
	}
	last := past[len(past)-1].Answer
	if last == nil || last.Stop != StopEnd || len(last.Calls) > 0 || last.empty() {
		return "", false
	}
	return last.Text, true
}

// Notes to a model that continues after a crash. A question to another agent lives as long as
// its attempt (docs/design.md, "Suspension").
const (
	interruptedNote   = "[Your work was interrupted here and resumes now. A call with an unknown result may have taken effect: check before you repeat it.]"
	lostQuestionsNote = "[Your open questions to other agents are lost. Ask again if you still need an answer.]"
)

// begin answers the open calls of the previous attempt, and adds the message.
func (l *Loop) begin(message string, again bool) error {
	fresh := len(l.conversation.messages) == 0
	for _, c := range append([]Call(nil), l.conversation.open...) {
		text := "Not run: the work was interrupted before this call."
		if l.conversation.started[c.ID] {
			text = "Unknown: the work was interrupted during this call. It may have taken effect."
		}
		if err := l.addStep(Step{Kind: StepResult, ID: c.ID, Text: text, Failed: true}); err != nil {
			return err
		}
	}
	if again && !fresh {
		note := interruptedNote
		if l.conversation.succeeded["ask"] {
			note += "\n" + lostQuestionsNote
		}
		return l.addStep(Step{Kind: StepNote, Text: note})
	}
	files, notes := l.Images.newFiles(l.Names.pick(CheckResult{Low: l.low}), l.conversation.shownFiles())
	return l.addStep(Step{Kind: StepWake, Text: message + filesNote(files, notes), Shown: files})
}

// addStep makes a step durable and then applies it to the conversation.
func (l *Loop) addStep(s Step) error {
	s.At = time.Now()
	if err := l.Steps.add(s); err != nil {
		return err
	}
	l.conversation.apply(s)
	return nil
}

// runEnd is the end of a run: its last words and, if those are not the whole answer, the
// reason.
type runEnd struct{ text, cut string }

// step asks the model once and handles its answer. A nil runEnd means that the run continues.
func (l *Loop) step(ctx context.Context) (*runEnd, error) {
	if l.conversation.calls >= l.maxCalls() {
		return &runEnd{cut: fmt.Sprintf("no final answer after %d requests to the model", l.conversation.calls)}, nil
	}
	if err := l.fitWindow(ctx); err != nil {
		return asRunEnd(err)
	}
	answer, err := l.ask(ctx)
	if err != nil {
		return asRunEnd(err)
	}
	if err := l.addStep(Step{Kind: StepAnswer, Answer: &answer}); err != nil {
		return nil, err
	}
	switch {
	case answer.Stop == StopRefusal:
		return &runEnd{cut: "the model refused to answer: " + answer.Word}, nil
	case answer.Stop == StopPause && len(answer.Calls) == 0:
		return nil, l.addStep(Step{Kind: StepNote, Text: "[Go on.]"})
	case answer.empty():
		return l.emptyAnswer()
	case len(answer.Calls) == 0 && answer.Stop == StopLength:
		return &runEnd{cut: "the answer is truncated: it reached the output limit (" + answer.Word + ")"}, nil
	case len(answer.Calls) == 0:
		return &runEnd{text: answer.Text}, nil
	}
	return l.callTools(ctx, answer)
}

// check calls Check before a request. If the run must end, the error is a runOverError.
func (l *Loop) check(ctx context.Context) (CheckResult, error) {
	o, err := l.Check(ctx)
	switch {
	case err != nil:
		return o, &internalError{err}
	case o.Over != "":
		return o, runOverError{o.Over}
	}
	l.applyBudget(o)
	return o, nil
}

// runOverError means that a request was not made because the run must end.
type runOverError struct{ why string }

func (e runOverError) Error() string { return e.why }

// asRunEnd returns the end of the run if err is a runOverError.
func asRunEnd(err error) (*runEnd, error) {
	if e, ok := errors.AsType[runOverError](err); ok {
		return &runEnd{cut: e.why}, nil
	}
	return nil, err
}

// emptyAnswer handles an empty answer. The model may answer with an empty text after ask and
// submit_result, and in a turn that may be silent.
func (l *Loop) emptyAnswer() (*runEnd, error) {
	if l.MayBeSilent || l.conversation.succeeded["ask"] || l.conversation.succeeded["submit_result"] {
		return &runEnd{}, nil
	}
	if l.conversation.blanks >= maxBlanks {
		return &runEnd{cut: "the model repeatedly returned empty answers"}, nil
	}
	return nil, l.addStep(Step{Kind: StepNote, Text: "[Your answer was empty. Write a text or call a tool.]"})
}

// internalError is a fault of our own, which another request cannot fix.
type internalError struct{ error }

func (b *internalError) Unwrap() error { return b.error }

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

// notRunReason returns why a call is not run after a call that ended the run.
func notRunReason(after After) string {
	switch after {
	case Suspend:
		return "an earlier call suspended your turn. Make this call again when the turn resumes, if you still need it."
	case Terminate:
		return "an earlier call ended your turn."
	}
	return ""
}

// endByCall returns the end of a run that a call ended. A later attempt may repeat it: its
// effects are idempotent.
func (l *Loop) endByCall(ctx context.Context) (*runEnd, error) {
	for _, c := range append([]Call(nil), l.conversation.open...) {
		if err := l.refuseCall(c, notRunReason(l.conversation.ending.After)); err != nil {
			return nil, err
		}
	}
	if l.conversation.ending.After != Terminate {
		return &runEnd{}, nil
	}
	if l.Finish != nil {
		if err := l.Finish(ctx); err != nil {
			return nil, err
		}
	}
	text := l.conversation.ending.Text
	l.speech.add(text)
	l.speech.flush()
	return &runEnd{text: text}, nil
}

// suspendNote returns the text by which the model learns that its turn waits.
func suspendNote(id string, wait time.Duration) string {
	return fmt.Sprintf("[Your turn now waits for report %s, for at most %v. It resumes with the report.]", id, wait)
}

const (
	pieceInterval = 200 * time.Millisecond // how long the emitter gathers pieces of text
	maxPiece      = 4 << 10                // bytes; a longer text is emitted at once
)

// textEmitter collects the text of answers and emits it in larger pieces.
type textEmitter struct {
	emit func(turn.Event)

	started  bool            // this process has emitted or gathered text
	inAnswer bool            // the current answer has text
	pending  strings.Builder // not yet emitted
	lastEmit time.Time       // when text was last emitted
}

// begin separates the next answer from the text before it.
func (s *textEmitter) begin() { s.inAnswer = false }

// add adds a piece of an answer's text.
func (s *textEmitter) add(text string) {
	if s.started && !s.inAnswer {
		s.pending.WriteString("\n\n")
	}
	s.started, s.inAnswer = true, true
	s.pending.WriteString(text)
	if s.pending.Len() >= maxPiece || time.Since(s.lastEmit) >= pieceInterval {
		s.flush()
	}
}

// flush emits the waiting text.
func (s *textEmitter) flush() {
	if s.pending.Len() > 0 {
		s.emit(turn.Event{Kind: turn.TextDelta, Text: s.pending.String()})
		s.lastEmit = time.Now()
	}
	s.pending.Reset()
}

// end emits the end of the run.
func (l *Loop) end(ctx context.Context, end runEnd) error {
	if end.cut == "" && l.conversation.ending.After == "" && !l.conversation.succeeded["sleep"] && !l.conversation.succeeded["ask"] {
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
	e := markLimited(l.done(), err, time.Now())
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
