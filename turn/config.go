package turn

import (
	"errors"
	"maps"
	"slices"
	"time"

	"agentstateloop/internal/secret"
)

// The runners (docs/design.md, "Configuration").
const (
	Exec   = "exec"   // any program; prompt on stdin, answer on stdout
	Claude = "claude" // claude -p, stream-json
	Codex  = "codex"  // codex exec --json
	Gemini = "gemini" // gemini, stream-json
	API    = "api"    // our own loop, in turn/react
	ACP    = "acp"    // any agent that speaks the Agent Client Protocol
)

// The defaults of Config.
const (
	DefaultTimeout   = 10 * time.Minute
	DefaultLinger    = 30 * time.Second
	DefaultSettle    = 500 * time.Millisecond
	DefaultGrace     = 5 * time.Second // between TERM and KILL (docs/design.md, "Locks")
	DefaultMaxText   = 256 << 10
	DefaultMaxOutput = 16 << 20
	DefaultMaxEvents = 8 << 20
)

// ErrStopped is the cause with which a caller cancels the context of Run to stop
// the turn. The Result is then delivered as canceled. Any other cause means that
// the caller will discard the Result.
var ErrStopped = errors.New("stopped")

// ErrHeld is returned by Prepare and Run when an agent of this attempt still lives.
var ErrHeld = errors.New("an agent of this attempt still lives")

// Config describes how to run the agent. It is the same for every attempt.
type Config struct {
	// Runner is one of Exec, Claude, Codex, Gemini, API and ACP. Command is the
	// program and its arguments. For Claude, Codex and Gemini it may be empty,
	// or name the binary and extra arguments. A path with a slash is relative to
	// Workdir; a bare name is looked up in the PATH of Env.
	Runner  string
	Command []string
	Workdir string

	// LoginName is the name of the agent's own credential; "" means "agent:" and the runner.
	LoginName string

	// Timeout is how long one attempt may take; zero means DefaultTimeout.
	// Silence is how long the agent may print nothing while no tool runs; zero
	// means forever. Linger is how long its process may stay after it reported
	// that it is done; zero means DefaultLinger. Settle is how long after that its
	// answer is awaited, because the agent may go to work again; zero means
	// DefaultSettle. Grace is the time between TERM
	// and KILL, and between KILL and abandoning; zero means DefaultGrace.
	Timeout time.Duration
	Silence time.Duration
	Linger  time.Duration
	Settle  time.Duration
	Grace   time.Duration

	// Env is added to the small environment that the agent gets, and replaces
	// its variables. The important one is PATH, because cron's is tiny.
	Env map[string]string

	// Box confines the agent; nil: it may do what its user may. It has no effect on
	// API, whose tools are confined one by one.
	Box *Sandbox

	// MCP has Claude, Codex and Gemini know the server of our tools (ToolServer), besides
	// what the user has configured.
	MCP bool

	// Approve has Claude ask us whether it may call a tool about which the user's own rules
	// say nothing, by the tool ApproveTool of that server.
	Approve bool

	// Options are the settings of a session that an agent of ACP is to have, by name.
	Options map[string]string

	// Low changes how the agent runs while money is short.
	Low Low

	// Self is the absolute path of our own binary. It is started as
	// `Self __attempt …` and must then call Main.
	Self string

	// Secrets are redacted in everything that the agent prints. The files that it
	// writes are not touched.
	Secrets *secret.Known

	// Version is our own version, for events.jsonl.
	Version string

	// Bounds in bytes; zero means the default. MaxText bounds Result.Text,
	// MaxOutput the file of the answer, MaxEvents events.jsonl.
	MaxText   int
	MaxOutput int64
	MaxEvents int64
}

// Low is what changes while money is short ([turn] low_command and low_args, [turn.acp]
// low_options, [api] low_model). API heeds Model itself, and halves what it may take.
type Low struct {
	Command []string          // instead of Config.Command; empty: the same
	Args    []string          // added to the arguments of an attempt
	Options map[string]string // in the place of those of Config
	Model   string            // that API asks instead of the usual one
}

// Cheaper reports whether another program or model than usual runs the agent while
// money is short.
func (c *Config) Cheaper() bool {
	model := modelIn(c.Low.Args)
	return len(c.Low.Command) > 0 && !slices.Equal(c.Low.Command, c.Command) || len(c.Low.Options) > 0 || c.Low.Model != "" || model != "" && model != modelIn(c.Command)
}

// Lowered returns how the agent runs an attempt while money is short: with another
// command, and with more arguments.
func (c *Config) Lowered(a Attempt) (*Config, Attempt) {
	low := *c
	if len(c.Low.Command) > 0 {
		low.Command = c.Low.Command
	}
	a.Extra = slices.Concat(a.Extra, c.Low.Args)
	return low.WithOptions(c.Low.Options), a
}

// WithOptions returns c with further options.
func (c *Config) WithOptions(options map[string]string) *Config {
	if len(options) == 0 {
		return c
	}
	own := *c
	own.Options = maps.Clone(c.Options)
	if own.Options == nil {
		own.Options = map[string]string{}
	}
	maps.Copy(own.Options, options)
	return &own
}

// LowFlag tells our own loop to ask the cheaper model, whatever money is left.
const LowFlag = "--low"

// ModelFlag tells our own loop which model to ask.
const ModelFlag = "--model"

// ForcedLow returns how our own loop runs an attempt with the cheaper model although money is
// not short.
func (c *Config) ForcedLow() *Config {
	if c.Runner != API {
		return c
	}
	low := *c
	low.Command = append(slices.Clone(c.Command), LowFlag)
	return &low
}

// KeepsLow reports whether a session that went on with the model of Low keeps it when
// money is there again: claude asks the model that a session had last, unless its
// arguments or its environment name one. extra are those of an attempt.
func (c *Config) KeepsLow(extra []string) bool {
	named := modelIn(slices.Concat(c.Command, extra)) != "" || c.Env["ANTHROPIC_MODEL"] != ""
	return c.Runner == Claude && modelIn(c.Low.Args) != "" && !named
}

// Attempt is one start of the agent on one message.
type Attempt struct {
	Dir    string // absolute, made by Prepare
	TurnID string
	Epoch  uint64

	Backend string // its name, for who stands in for the program

	Prompt  []byte            // goes to stdin, never to argv
	Session string            // the agent's own session to resume; "" begins one
	Extra   []string          // further arguments, chosen by the cause of the turn
	Env     map[string]string // such as AGENTSTATELOOP_CONFIG; replaces Config.Env
	Read    []string          // further paths that exist in its box, if it has one
	Write   []string          // further paths that it may write to there
	Grants  ACPGrants         // what an agent of ACP may do

	offered []string // arguments that name the server of our tools

	// MayBeSilent: an agent that ends well and says nothing has succeeded.
	MayBeSilent bool
}

// withDefaults fills in what was left zero.
func (c Config) withDefaults() Config {
	c.Timeout = orDefault(c.Timeout, DefaultTimeout)
	c.Linger = orDefault(c.Linger, DefaultLinger)
	c.Settle = min(orDefault(c.Settle, DefaultSettle), c.Linger)
	c.Grace = orDefault(c.Grace, DefaultGrace)
	c.MaxText = orDefault(c.MaxText, DefaultMaxText)
	c.MaxOutput = orDefault(c.MaxOutput, DefaultMaxOutput)
	c.MaxEvents = orDefault(c.MaxEvents, DefaultMaxEvents)
	return c
}

func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
