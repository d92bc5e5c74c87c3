package react

import (
	"context"
	"time"

	"agentstateloop/turn"
)

// Settings is the configuration of a Loop. A bound of zero has its default.
type Settings struct {
	Model  Model
	Names  Names
	System string // the system prompt
	Brief  string // the question for a summary
	Tools  []Tool
	Steps  *Steps
	Images *Images // nil: the model sees no files

	Shape   Shape   // of the requests, as set by the user
	Lessons Lessons // nil: lessons end with the run

	Window    int // tokens of a conversation that fit the models
	MaxOutput int // tokens of an answer
	MaxCalls  int // answers of one run
	MaxTools  int // calls of one answer that are run

	// Deadline is when the attempt will be ended. The loop does not wait beyond it. Zero means
	// never.
	Deadline time.Time

	// Backoff is the first wait after a transient fault. Zero means a second.
	Backoff time.Duration

	// MayBeSilent lets an empty answer end the run successfully.
	MayBeSilent bool
}

// The defaults of Settings.
const (
	DefaultMaxCalls  = 25
	DefaultMaxTools  = 10
	DefaultMaxOutput = 8192
	DefaultWindow    = 200_000
)

// Names are the models that a Loop asks, by their names in the API.
type Names struct {
	Usual   string
	Low     string // while money is short; "" means Usual
	Summary string // for summaries; "" means the model of the other requests
}

// pick returns the name of the model to ask.
func (n Names) pick(o CheckResult) string {
	if o.Low && n.Low != "" {
		return n.Low
	}
	return n.Usual
}

// withDefaults fills in zero fields.
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

// half returns a bound reduced for times when money is short.
func half(bound int) int { return max(1, bound/2) }

// Callbacks connect a Loop with its turn. The loop calls them from one goroutine.
type Callbacks struct {
	// Emit takes each event.
	Emit func(turn.Event)

	// Check is called before each request and each tool. An error means that this process must
	// do no more work: the turn is over, or another process has it.
	Check func(context.Context) (CheckResult, error)

	// Spent takes the expense of each answer, including answers that broke off, before the loop
	// uses the answer.
	Spent func(context.Context, Expense) error

	// Rest is called at the end of a run if the agent has not asked another agent and has not
	// said how long to rest.
	Rest func(context.Context) error

	// Shorter returns the first message of the run shortened to at most about that many bytes,
	// with less of the earlier conversation. It may be nil.
	Shorter func(bytes int) (string, error)

	// Finish is called when a tool has ended the turn, perhaps again after a crash. It may be
	// nil.
	Finish func(context.Context) error
}

// CheckResult describes the conditions for the loop's next step.
type CheckResult struct {
	Over  string   // why the run must end here; "" if it may continue
	Low   bool     // money is short
	Notes []string // for the model; each is passed on once
}

// Expense is the usage of one answer. Number counts the answers of this attempt from 1.
type Expense struct {
	Number  int
	Model   string
	Usage   turn.Usage
	CostUSD float64 // the API's own figure, or 0
}

// meter adds up the usage of one process's requests.
type meter struct {
	usage    turn.Usage
	costUSD  float64 // if the API reports it
	requests int     // answered requests
}

// add counts an answer and returns its number.
func (m *meter) add(a Answer) int {
	m.requests++
	m.usage.Input += a.Usage.Input
	m.usage.Output += a.Usage.Output
	m.usage.CacheRead += a.Usage.CacheRead
	m.usage.CacheWrite += a.Usage.CacheWrite
	m.costUSD += a.CostUSD
	return m.requests
}

// maxUsage is the most tokens of one kind that a request can use. Higher counts are ignored.
const maxUsage = 100_000_000

// estimateUsage returns the usage of a request: the API's counts if they are plausible, otherwise
// an estimate. An API that does not count is not free. An answer that broke off was generated too,
// although an API may count it only at the end. A request that failed before any output is not
// estimated. whole means that the request did not fail.
func estimateUsage(q Question, a Answer, whole bool) turn.Usage {
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
