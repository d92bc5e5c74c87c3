package react

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/turn"
)

// Loop is one wake of the agent: a model is asked, the tools that it calls are
// run, and it is asked again, until it stops.
type Loop struct {
	Model  Model
	Names  Names
	System string
	Brief  string // the question for a summary
	Tools  []Tool
	Steps  *Steps

	Window    int // tokens of a conversation that the models take
	MaxOutput int // tokens of an answer
	MaxCalls  int // answers of one wake
	MaxTools  int // calls of one answer that are run

	// Deadline is when the attempt will be ended: nothing is waited for beyond
	// it. Zero means never.
	Deadline time.Time

	// Backoff is the first wait after a fault that may pass; zero means a second.
	Backoff time.Duration

	// Emit tells what happens. It is called from one goroutine.
	Emit func(turn.Event)

	// Look is asked before each question and each tool. Its error says that
	// this process may do nothing more: the turn is over, or another's.
	Check func(context.Context) (Outlook, error)

	// Spent is told of each answer, and of what had come of one that broke off,
	// before anything is done with it.
	Spent func(context.Context, Expense) error

	// Rest is called at the end of a wake in which the agent has neither asked
	// nor said how long it wishes to rest.
	Rest func(context.Context) error

	conversation *conversation
	said         bool            // something was, in this process
	saying       bool            // and in this answer
	spent        turn.Usage      // by this process
	cost         float64         // of it, where the API says
	told         map[string]bool // notes of Look
	asked        int             // requests that were answered, for their ids
	stream       strings.Builder // text that waits to be emitted
	shown        time.Time       // when it was last
}

// Names are the models that a Loop asks, by their names for the API.
type Names struct {
	Usual   string
	Low     string // while money is short; "" is Usual
	Summary string // for summaries; "" is the one that is asked otherwise
}

// Outlook is what there is to know before the next step.
type Outlook struct {
	Over  string   // why the wake must end here; "" if it may go on
	Low   bool     // money is short
	Notes []string // for the model, each told once
}

// Expense is what one answer took. Number counts those of this attempt from 1.
type Expense struct {
	Number  int
	Model   string
	Usage   turn.Usage
	CostUSD float64 // the API's own figure; 0 if it has none
}

// What a zero in Loop means, and bounds that are not to be set.
const (
	DefaultMaxCalls  = 25
	DefaultMaxTools  = 10
	DefaultMaxOutput = 8192
	DefaultWindow    = 200_000

	maxSameCall = 3 // times that the same call is run; the next ends the wake
	maxBlanks   = 2 // empty answers, and the wake has failed
	maxBackoff  = time.Minute
)

// ErrFailed: the wake came to nothing, which was told as an event.
var ErrFailed = errors.New("inference failed")

// Run wakes the agent with a message. In a turn that an earlier attempt began,
// it goes on where that one ended: as its next wake if message is new to the
// turn, else, with again, in the middle of the same. All is told by Emit, the
// end by an event Done, which is missing only if ctx ended. The error is
// ErrFailed, or why this process may do nothing more.
func (l *Loop) Run(ctx context.Context, message string, again bool) error {
	l.prepare()
	l.Emit(turn.Event{Kind: turn.SessionStart})
	l.conversation = newConversation(l.Steps.Past)
	if text, ok := l.finished(); ok && again {
		l.say(text)
		l.flush()
		return l.end(ctx, wakeEnd{text: text})
	}
	if err := l.wake(message, again); err != nil {
		return l.fail(err)
	}
	for {
		over, err := l.step(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return l.fail(err)
		case over != nil:
			return l.end(ctx, *over)
		}
	}
}

// finished gives the last words of a wake that had come to its end when its
// process died. They are the answer: asked again, a model would say that it has
// answered already. Not so after ask, when they only say what is waited for.
func (l *Loop) finished() (text string, ok bool) {
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

// prepare puts what a zero means in its place.
func (l *Loop) prepare() {
	l.MaxCalls, l.MaxTools = orElse(l.MaxCalls, DefaultMaxCalls), orElse(l.MaxTools, DefaultMaxTools)
	l.MaxOutput, l.Window = orElse(l.MaxOutput, DefaultMaxOutput), orElse(l.Window, DefaultWindow)
	l.Backoff = orElse(l.Backoff, time.Second)
	l.told = map[string]bool{}
}

func orElse[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// cutShort is what a model is told that goes on after a crash.
const cutShort = "[This work was cut short here, and goes on now. A call whose result is unknown may have been done: look before you repeat it.]"

// unanswered is what it is told that had asked: a question lives as long as its
// attempt (DESIGN 6).
const unanswered = "[What you had asked other agents will not be answered any more: ask again if you still need it.]"

// wake settles what the attempt before left open, and begins.
func (l *Loop) wake(message string, again bool) error {
	fresh := len(l.conversation.messages) == 0
	for _, c := range append([]Call(nil), l.conversation.open...) {
		text := "Not run: the work was cut short before it came to this call."
		if l.conversation.started[c.ID] {
			text = "Unknown: the work was cut short while this call ran. It may have been done."
		}
		if err := l.keep(Step{Kind: StepResult, ID: c.ID, Text: text, Failed: true}); err != nil {
			return err
		}
	}
	if again && !fresh {
		note := cutShort
		if l.conversation.succeeded["ask"] {
			note += "\n" + unanswered
		}
		return l.keep(Step{Kind: StepNote, Text: note})
	}
	return l.keep(Step{Kind: StepWake, Text: message})
}

// keep makes a step count: first it is durable.
func (l *Loop) keep(s Step) error {
	s.At = time.Now()
	if err := l.Steps.add(s); err != nil {
		return err
	}
	l.conversation.apply(s)
	return nil
}

// wakeEnd is the end of a wake: its last words, and why they are not all, where
// they are not.
type wakeEnd struct{ text, cut string }

// step asks the model once and does what it wants.
func (l *Loop) step(ctx context.Context) (*wakeEnd, error) {
	if l.conversation.calls >= l.MaxCalls {
		return &wakeEnd{cut: fmt.Sprintf("the model was asked %d times without coming to an end", l.conversation.calls)}, nil
	}
	if err := l.fitWindow(ctx); err != nil {
		return wakeEnded(err)
	}
	answer, err := l.ask(ctx)
	if err != nil {
		return wakeEnded(err)
	}
	if err := l.keep(Step{Kind: StepAnswer, Answer: &answer}); err != nil {
		return nil, err
	}
	switch {
	case answer.Stop == StopRefusal:
		return &wakeEnd{cut: "the model refused to answer: " + answer.Word}, nil
	case answer.Stop == StopPause && len(answer.Calls) == 0:
		return nil, l.keep(Step{Kind: StepNote, Text: "[Go on.]"})
	case answer.empty():
		return l.blank()
	case len(answer.Calls) == 0 && answer.Stop == StopLength:
		return &wakeEnd{cut: "the answer is cut: it is longer than the model may answer (" + answer.Word + ")"}, nil
	case len(answer.Calls) == 0:
		return &wakeEnd{text: answer.Text}, nil
	}
	return l.callTools(ctx, answer)
}

// check is Look, before each request. That the wake must end comes as an overNow.
func (l *Loop) check(ctx context.Context) (Outlook, error) {
	o, err := l.Check(ctx)
	switch {
	case err != nil:
		return o, &broken{err}
	case o.Over != "":
		return o, endWake{o.Over}
	}
	return o, nil
}

// endWake is why a request is not made any more, and the wake ends.
type endWake struct{ why string }

func (o endWake) Error() string { return o.why }

// wakeEnded is the end of a wake that err brings, if it is an overNow.
func wakeEnded(err error) (*wakeEnd, error) {
	if o, ok := errors.AsType[endWake](err); ok {
		return &wakeEnd{cut: o.why}, nil
	}
	return nil, err
}

// note tells the model what it must know for its next answer.
func (l *Loop) note(o Outlook) error {
	all := o.Notes
	if l.conversation.calls == l.MaxCalls-1 {
		all = append(slices.Clone(all), "This is your last answer for now, and its calls will not be run: say what you have.")
	}
	var notes []string
	for _, n := range all {
		if !l.told[n] {
			l.told[n] = true
			notes = append(notes, n)
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return l.keep(Step{Kind: StepNote, Text: "[" + strings.Join(notes, " ") + "]"})
}

// blank is an answer with nothing in it. After ask and submit_result nothing
// more needs to be said.
func (l *Loop) blank() (*wakeEnd, error) {
	if l.conversation.succeeded["ask"] || l.conversation.succeeded["submit_result"] {
		return &wakeEnd{}, nil
	}
	if l.conversation.blanks >= maxBlanks {
		return &wakeEnd{cut: "the model gave an empty answer, again and again"}, nil
	}
	return nil, l.keep(Step{Kind: StepNote, Text: "[Your answer was empty. Say something, or call a tool.]"})
}

// ask puts the conversation to the model, again and again as long as that makes
// sense and there is time.
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
		q := Question{Model: l.model(o), System: l.System, Messages: l.conversation.messages, Tools: l.Tools, MaxOutput: l.MaxOutput}
		l.saying = false
		answer, err := l.query(ctx, q, l.say)
		l.flush()
		if err == nil {
			l.nameCalls(&answer)
			return answer, nil
		}
		if ctx.Err() != nil {
			return answer, err
		}
		if len(answer.Text) > 0 {
			l.Emit(turn.Event{Kind: turn.TextDelta, Text: "\n[The connection broke off here; the answer begins anew.]"})
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

// query makes one request, and tells what it took.
func (l *Loop) query(ctx context.Context, q Question, say func(string)) (Answer, error) {
	answer, err := l.Model.Answer(ctx, q, say)
	answer.Usage = used(q, answer, err == nil)
	if answer.Usage == (turn.Usage{}) {
		return answer, err
	}
	l.asked++
	l.spent.Input += answer.Usage.Input
	l.spent.Output += answer.Usage.Output
	l.spent.CacheRead += answer.Usage.CacheRead
	l.spent.CacheWrite += answer.Usage.CacheWrite
	l.cost += answer.CostUSD
	spent := l.Spent(ctx, Expense{Number: l.asked, Model: q.Model, Usage: answer.Usage, CostUSD: answer.CostUSD})
	if spent != nil {
		return answer, &broken{spent}
	}
	return answer, err
}

// used is what a request took: as the API says, where that can be. One that does
// not count is not free, and what broke off was generated, though it be counted
// at the end only. Nothing is known of what nothing came of.
func used(q Question, a Answer, whole bool) turn.Usage {
	u := a.Usage
	for _, n := range []int64{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
		if n < 0 || n > maxUsage {
			u, whole = turn.Usage{}, true
			break
		}
	}
	if whole && u != (turn.Usage{}) || !whole && a.size() == 0 {
		return u
	}
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		u.Input = int64(q.size()) / bytesPerToken
	}
	u.Output = max(u.Output, int64(a.size())/bytesPerToken)
	return u
}

// maxUsage is what one request can use of a kind of tokens: more is no figure to
// believe.
const maxUsage = 100_000_000

// broken is a fault of our own, with which no request can help.
type broken struct{ error }

func (b *broken) Unwrap() error { return b.error }

// model is the name of the model to ask.
func (l *Loop) model(o Outlook) string {
	if o.Low && l.Names.Low != "" {
		return l.Names.Low
	}
	return l.Names.Usual
}

// nameCalls gives each call an id that the APIs take and no other call has.
func (l *Loop) nameCalls(a *Answer) {
	seen := map[string]bool{}
	for i := range a.Calls {
		c := &a.Calls[i]
		for n := i + 1; c.ID == "" || c.ID != sendable(c.ID) || l.conversation.ids[c.ID] || seen[c.ID]; n++ {
			c.ID = fmt.Sprintf("call_%d_%d", len(l.conversation.ids)+1, n)
		}
		seen[c.ID] = true
	}
}
