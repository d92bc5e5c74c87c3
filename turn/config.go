package turn

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/secret"
)

// The runners (docs/protocol.md, "Configuration").
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

// ErrStopped is the cause with which a caller of Run cancels the context to stop the turn. The
// Result is then delivered as canceled. Any other cause means that the caller will discard the
// Result.
var ErrStopped = errors.New("stopped")

// ErrHeld is returned by Prepare and Run if an agent of this attempt still lives.
var ErrHeld = errors.New("an agent of this attempt is still running")

// Config describes how to run the agent. It is the same for every attempt.
type Config struct {
	// Runner is one of Exec, Claude, Codex, Gemini, API and ACP. Command is the
	// program and its arguments. For Claude, Codex and Gemini it may be empty,
	// or name the binary and extra arguments. A path with a slash is relative to
	// Workdir; a bare name is looked up in the PATH of Env.
	Runner  string
	Command []string
	Workdir string

	// LoginName is the name of the agent's own credential; "" means "agent:" followed by the
	// runner.
	LoginName string

	// Timeout bounds one attempt; zero means DefaultTimeout. Silence bounds the time without
	// output while no tool runs; zero means forever. Linger bounds the time that the process may
	// stay after the agent has reported that it is done; zero means DefaultLinger. Settle is the
	// time between that report and the moment when the answer counts, because the agent may
	// resume work; zero means DefaultSettle. Grace is the time between TERM and KILL, and between
	// KILL and abandoning; zero means DefaultGrace.
	Timeout time.Duration
	Silence time.Duration
	Linger  time.Duration
	Settle  time.Duration
	Grace   time.Duration

	// Env is added to the small environment of the agent, and replaces its variables. The
	// important variable is PATH, because cron's is tiny.
	Env map[string]string

	// Box is the sandbox of the agent. Without one, the agent may do anything that its user may.
	// Box has no effect on API, whose tools are confined one by one.
	Box *Sandbox

	// MCP adds the server of our tools (ToolServer) to the servers that the user has configured
	// for Claude, Codex and Gemini.
	MCP bool

	// Approve makes Claude ask us for permission to call tools that the user's own rules do not
	// cover. Claude asks through ApproveTool of that server.
	Approve bool

	// Options are the settings for the session of an ACP agent, by name.
	Options map[string]string

	// Low changes how the agent runs while money is short.
	Low Low

	// Self is the absolute path of our own binary. It is started as
	// `Self __attempt …` and must then call Main.
	Self string

	// Secrets are redacted in the agent's output, but not in the files that it writes.
	Secrets *secret.Known

	// Version is our own version, for events.jsonl.
	Version string

	// Bounds in bytes; zero means the default. MaxText bounds Result.Text,
	// MaxOutput the file of the answer, MaxEvents events.jsonl.
	MaxText   int
	MaxOutput int64
	MaxEvents int64
}

// Low holds the settings for short money ([turn] low_command and low_args, [turn.acp]
// low_options, [api] low_model). API applies Model itself, and halves the limits of its run.
type Low struct {
	Command []string          // replaces Config.Command; empty keeps it
	Args    []string          // added to the arguments of an attempt
	Options map[string]string // override those of Config
	Model   string            // for API, instead of the usual one
}

// Cheaper reports whether a program or model other than the usual one runs the agent while money
// is short.
func (c *Config) Cheaper() bool {
	model := modelIn(c.Low.Args)
	return len(c.Low.Command) > 0 && !slices.Equal(c.Low.Command, c.Command) || len(c.Low.Options) > 0 || c.Low.Model != "" || model != "" && model != modelIn(c.Command)
}

// WithLow returns the Config and the Attempt for short money: with another command, more
// arguments and further options.
func (c *Config) WithLow(a Attempt) (*Config, Attempt) {
	low := *c
	if len(c.Low.Command) > 0 {
		low.Command = c.Low.Command
	}
	a.Extra = slices.Concat(a.Extra, c.Low.Args)
	return low.WithOptions(c.Low.Options), a
}

// WithOptions returns c with further options, which override those of c.
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

// LowFlag makes our own loop use the cheaper model, regardless of the money left.
const LowFlag = "--low"

// ModelFlag sets the model of our own loop.
const ModelFlag = "--model"

// WithLowFlag returns a Config that makes our own loop use the cheaper model even if money is not
// short. For any other runner it returns c.
func (c *Config) WithLowFlag() *Config {
	if c.Runner != API {
		return c
	}
	low := *c
	low.Command = append(slices.Clone(c.Command), LowFlag)
	return &low
}

// KeepsLow reports whether a session that continued with the model of Low keeps that model after
// money is available again. claude keeps the last model of a session, unless its arguments or its
// environment name one. extra holds the arguments of an attempt.
func (c *Config) KeepsLow(extra []string) bool {
	named := modelIn(slices.Concat(c.Command, extra)) != "" || c.Env["ANTHROPIC_MODEL"] != ""
	return c.Runner == Claude && modelIn(c.Low.Args) != "" && !named
}

// Attempt is one start of the agent on one message.
type Attempt struct {
	Dir    string // absolute, made by Prepare
	TurnID string
	Epoch  uint64

	Backend string // the backend's name, for a simulation of the program

	Prompt  []byte            // goes to stdin, never to argv
	Session string            // the agent's own session to resume; "" begins one
	Extra   []string          // further arguments, chosen by the cause of the turn
	Env     map[string]string // such as AGENTSTATELOOP_CONFIG; overrides Config.Env
	Read    []string          // further readable paths in its sandbox, if it has one
	Write   []string          // further writable paths there
	Grants  ACPGrants         // the rights of an ACP agent

	toolArgs []string // arguments that name the server of our tools

	// MayBeSilent means that an agent that ends well without an answer has succeeded.
	MayBeSilent bool
}

// withDefaults fills in the zero fields.
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

// ToolServerCommand is the subcommand of our own binary that offers our commands as tools to an
// agent in its turn. It speaks the Model Context Protocol on standard input and output.
const ToolServerCommand = "mcp"

// ToolServerName is the name of that server in the configuration of the agent's program.
const ToolServerName = "agentstateloop"

// ApproveTool is the tool of that server that decides requests for permission. The server offers
// it if it gets the flag ApproveFlag.
const (
	ApproveTool = "approve"
	ApproveFlag = "approve"
)

// ToolServer describes how to start the server of our tools.
type ToolServer struct {
	Name    string
	Command string // absolute
	Args    []string

	// Env is the part of the attempt's environment that the server needs: the turn that it
	// serves, and the address of the turn's runner. It contains no secret.
	Env map[string]string

	approves bool // it offers ApproveTool
}

// toolServer returns the server for an attempt with this environment.
func (c Config) toolServer(env map[string]string) ToolServer {
	ours := maps.Clone(env)
	maps.DeleteFunc(ours, func(name, _ string) bool {
		return !strings.HasPrefix(name, "AGENTSTATELOOP_") && name != "XDG_CONFIG_HOME"
	})
	server := ToolServer{Name: ToolServerName, Command: c.Self, Args: []string{ToolServerCommand}, Env: ours, approves: c.Approve}
	if c.Approve {
		server.Args = append(server.Args, "--"+ApproveFlag)
	}
	return server
}

// variables returns the names in Env, sorted. A command line names the variables without their
// values: the program has them in its own environment.
func (s ToolServer) variables() []string { return slices.Sorted(maps.Keys(s.Env)) }

// configure makes the agent's program start the server. It returns further arguments for the
// program, and may change its environment and its sandbox.
func (s ToolServer) configure(runner string, a *Attempt, env map[string]string) (args []string, err error) {
	switch runner {
	case Claude:
		return s.claudeArguments(), nil
	case Codex:
		return s.codexArguments(), nil
	case Gemini:
		return nil, s.geminiHome(a, env)
	}
	return nil, nil
}

// toolName returns the name of an agent's tool for the live view. mcp__x__y becomes x/y, and so
// does mcp_x_y of our own server.
func toolName(name string) string {
	if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
		if server, tool, ok := strings.Cut(rest, "__"); ok && server != "" && tool != "" {
			return server + "/" + tool
		}
	}
	if tool, ok := strings.CutPrefix(name, "mcp_"+ToolServerName+"_"); ok {
		return ToolServerName + "/" + tool
	}
	return name
}

// toJSON returns a value as JSON. For texts and lists of texts, this JSON is also TOML.
func toJSON(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err) // every value here can be marshalled
	}
	return strings.TrimSpace(b.String())
}
