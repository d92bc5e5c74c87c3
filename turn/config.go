package turn

import (
	"errors"
	"time"

	"agentstateloop/internal/secret"
)

// The runners (DESIGN 12).
const (
	Exec   = "exec"   // any program: prompt on stdin, answer on stdout
	Claude = "claude" // claude -p, stream-json
	Codex  = "codex"  // codex exec --json
	Gemini = "gemini" // gemini, stream-json
	API    = "api"    // our own loop, in turn/react
)

// What a zero in Config means.
const (
	DefaultTimeout   = 10 * time.Minute
	DefaultLinger    = 30 * time.Second
	DefaultGrace     = 5 * time.Second // DESIGN 6: TERM, then KILL after 5 s
	DefaultMaxText   = 256 << 10
	DefaultMaxOutput = 16 << 20
	DefaultMaxEvents = 8 << 20
)

// ErrStopped is the cause with which a caller cancels the context of Run when
// somebody asked for the turn to be stopped. The Result is then delivered as
// canceled. Any other cause says that the result is no longer wanted.
var ErrStopped = errors.New("stopped")

// ErrHeld is returned by Prepare and Run when an agent of this attempt still lives.
var ErrHeld = errors.New("an agent of this attempt still lives")

// Config says how the agent is run; it is the same for every attempt.
type Config struct {
	// Runner is one of Exec, Claude, Codex, Gemini and API. Command is the
	// program and its arguments; for Claude, Codex and Gemini it may be empty,
	// or name the binary and extra arguments. A path with a slash is taken from Workdir, a
	// bare name is looked up in the PATH of Env.
	Runner  string
	Command []string
	Workdir string

	// Timeout is the wall clock of one attempt; zero means DefaultTimeout.
	// Silence is how long the agent may print nothing while no tool runs; zero
	// means for ever. Linger is how long a process may stay after it said that
	// it is done; zero means DefaultLinger. Grace lies between TERM and KILL,
	// and between KILL and giving up; zero means DefaultGrace.
	Timeout time.Duration
	Silence time.Duration
	Linger  time.Duration
	Grace   time.Duration

	// Env is added to the small clean environment that the agent gets, and
	// replaces what is there (PATH above all: cron's is tiny).
	Env map[string]string

	// Self is the absolute path of our own binary. It is started as
	// `Self __attempt …` and must then call Main.
	Self string

	// Secrets are kept out of all that the agent prints, from the first byte on.
	// What it writes into files is its own.
	Secrets *secret.Known

	// Version of ours, for events.jsonl.
	Version string

	// In bytes, zero meaning the default: MaxText bounds Result.Text,
	// MaxOutput the answer as a file, MaxEvents events.jsonl.
	MaxText   int
	MaxOutput int64
	MaxEvents int64
}

// Attempt is one start of the agent on one message.
type Attempt struct {
	Dir    string // absolute, made by Prepare
	TurnID string
	Epoch  uint64

	Prompt  []byte            // goes to stdin, never to argv
	Session string            // the agent's own session to go on with; "" begins one
	Extra   []string          // more arguments, by the cause of the turn
	Env     map[string]string // AGENTSTATELOOP_CONFIG and the like; wins over Config.Env
}

// withDefaults fills in what was left zero.
func (c Config) withDefaults() Config {
	c.Timeout = orDefault(c.Timeout, DefaultTimeout)
	c.Linger = orDefault(c.Linger, DefaultLinger)
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
