package react

import (
	"context"
	"time"

	"agentstateloop/turn"
)

// Settings holds what a Loop works with. A bound that is zero has its default.
type Settings struct {
	Model  Model
	Names  Names
	System string // the system prompt
	Brief  string // the question for a summary
	Tools  []Tool
	Steps  *Steps
	Sight  *Sight // nil: the model sees nothing

	Shape   Shape   // of the requests, as the user sets it
	Lessons Lessons // nil: nothing is remembered

	Window    int // tokens of a conversation that the models take
	MaxOutput int // tokens of an answer
	MaxCalls  int // answers of one run
	MaxTools  int // calls of one answer that are run

	// Deadline is when the attempt will be ended. The loop waits for nothing
	// beyond it. Zero means never.
	Deadline time.Time

	// Backoff is the first wait after a fault that may pass. Zero means a second.
	Backoff time.Duration

	// MayBeSilent: an empty answer ends the run well.
	MayBeSilent bool
}

// The defaults of Settings.
const (
	DefaultMaxCalls  = 25
	DefaultMaxTools  = 10
	DefaultMaxOutput = 8192
	DefaultWindow    = 200_000
)

// Names are the models that a Loop asks, by their names for the API.
type Names struct {
	Usual   string
	Low     string // while money is short; "" means Usual
	Summary string // for summaries; "" means the one that is asked otherwise
}

// pick returns the name of the model to ask.
func (n Names) pick(o Outlook) string {
	if o.Low && n.Low != "" {
		return n.Low
	}
	return n.Usual
}

// withDefaults fills in what was left zero.
func (s Settings) withDefaults() Settings {
	s.MaxCalls, s.MaxTools = orDefault(s.MaxCalls, DefaultMaxCalls), orDefault(s.MaxTools, DefaultMaxTools)
	s.MaxOutput, s.Window = orDefault(s.MaxOutput, DefaultMaxOutput), orDefault(s.Window, DefaultWindow)
	s.Backoff = orDefault(s.Backoff, time.Second)
	return s
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// half returns what is left of a bound while money is short.
func half(bound int) int { return max(1, bound/2) }

// Callbacks connect a Loop with the turn that it runs in. They are called from
// one goroutine.
type Callbacks struct {
	// Emit takes each event.
	Emit func(turn.Event)

	// Check is called before each request and each tool. Its error means that
	// this process may do nothing more: the turn is over, or another process
	// has it.
	Check func(context.Context) (Outlook, error)

	// Spent takes the expense of each answer, also of one that broke off,
	// before anything is done with the answer.
	Spent func(context.Context, Expense) error

	// Rest is called at the end of a run in which the agent has neither asked
	// another agent nor said how long to rest.
	Rest func(context.Context) error

	// Shorter returns the message that the run began with in at most about so many bytes, with
	// less of what was said before. It may be nil.
	Shorter func(bytes int) (string, error)

	// Finish is called when a tool has ended the turn, perhaps again after a crash. It
	// may be nil.
	Finish func(context.Context) error
}

// Outlook describes what the loop must consider before its next step.
type Outlook struct {
	Over  string   // why the run must end here; "" if it may go on
	Low   bool     // money is short
	Notes []string // for the model; each is passed on once
}

// Expense holds what one answer took. Number counts the answers of this attempt
// from 1.
type Expense struct {
	Number  int
	Model   string
	Usage   turn.Usage
	CostUSD float64 // the API's own figure; 0 if it has none
}
