package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"agentstateloop/state"

	"golang.org/x/sys/unix"
)

// Run calls Answer and then follows the agent to its end.
func (c Config) Run(ctx context.Context, a Attempt, watch func(Progress)) (Result, error) {
	res, err := c.Answer(ctx, a, watch)
	if res.Rest != nil {
		res = res.Rest()
	}
	return res, err
}

// Answer starts the agent on a prepared attempt. It returns when the agent has ended, or earlier:
// when the agent has reported that it is done and has not resumed work within Settle. Then the
// Result has a Rest, and Answer continues to follow the agent in the background. Text that the
// agent prints later is not part of any Result.
//
// Answer returns within Timeout and a few Graces, regardless of the agent and its children. A
// missing command, a missing workdir or an agent that dies is a Result, not an error.
//
// When ctx is cancelled, even after Answer has returned, Answer ends the agent's process group
// with TERM, and with KILL after Grace. If the cause is ErrStopped, the Result is canceled and
// holds the output so far. For any other cause, such as a lost epoch, the error is that cause and
// the caller discards the Result. Any other error means that the attempt could not begin because
// of a fault of ours, such as a full disk. Then no agent was started.
//
// watch, if not nil, is called with each event, and once without an event when the agent has
// ended. The calls come one at a time from one goroutine. While watch runs, the agent's output
// waits.
func (c Config) Answer(ctx context.Context, a Attempt, watch func(Progress)) (Result, error) {
	c = c.withDefaults()
	kind, program, err := agentFor(c.Runner)
	if err != nil {
		return Result{}, err
	}
	if !filepath.IsAbs(a.Dir) || !filepath.IsAbs(c.Self) {
		return Result{}, fmt.Errorf("run agent: %q and %q must be absolute paths", a.Dir, c.Self)
	}
	if err := context.Cause(ctx); err != nil {
		if !errors.Is(err, ErrStopped) {
			return Result{}, err
		}
		return Result{Status: Canceled, Reason: "stopped before the agent started", Exit: ExitStopped, ExitCode: -1}, nil
	}
	if a.Session != "" && !validSession(a.Session) {
		a.Session = ""
	}

	command := c.Command
	if len(command) == 0 {
		command = []string{program}
	}
	env := c.environ(a)
	missing, followed := "", false
	defer func() {
		if !followed {
			removeGeminiHome(a.Dir)
		}
	}()
	if c.MCP {
		if a.toolArgs, err = c.toolServer(env).configure(c.Runner, &a, env); err != nil {
			missing = fmt.Sprintf("the agent has the agentstateloop commands but not the MCP tools: %v", err)
		}
	}
	argv := kind.argv(command, a)
	log := openEventLog(a.Dir, c.MaxEvents)
	first := startLine{Time: time.Now().UTC(), Kind: "start", Version: c.Version, Runner: c.Runner, Argv: argv, Workdir: c.Workdir, Note: missing}

	path, err := c.find(argv[0], env["PATH"])
	if err != nil {
		log.line(first)
		return startFailure(err).closeLog(log), nil
	}
	var host *ACPSettings
	if kind.hosted {
		host = &ACPSettings{Session: a.Session, Grants: a.Grants, Options: c.Options, Settle: c.Settle, Linger: c.Linger, MayBeSilent: a.MayBeSilent}
		if c.MCP {
			host.Tools = c.toolServer(env).acpTools()
		}
	}
	entered, err := c.commandLine(ctx, a, path, argv, env, host)
	if err != nil {
		log.line(first)
		return startFailure(err).closeLog(log), nil
	}
	if c.Box != nil || host != nil {
		path = entered[0]
	}
	p, err := c.start(a, path, entered, env)
	if err != nil {
		log.line(first)
		startFailure(err).closeLog(log)
		return Result{}, err
	}
	first.PID = p.pid
	log.line(first)

	now := time.Now()
	s := &supervisor{
		config: c, attempt: a,
		process:   p,
		activity:  newActivity(),
		output:    newOutput(c, a, kind, argv),
		deadlines: newDeadlines(c, now),
		live:      newLiveView(c, a, p.pid, now),
		log:       log,
		watch:     watch,
		events:    make(chan Event, 64),
		answered:  make(chan Result, 1),
	}
	var end struct {
		res Result
		err error
	}
	ended := make(chan struct{})
	followed = true
	go c.Secrets.Guarded(func() {
		defer close(ended)
		s.follow(ctx)
		end.res, end.err = s.conclude(ctx)
		removeGeminiHome(a.Dir)
		if missing != "" {
			end.res.Notes = append(end.res.Notes, missing)
		}
	})()
	select {
	case <-ended:
		return end.res, end.err
	case res := <-s.answered:
		res.Rest = func() Result { <-ended; return end.res }
		return res, nil
	}
}

// conclude returns the Result of an agent that has ended and writes the last line of
// events.jsonl.
func (s *supervisor) conclude(ctx context.Context) (Result, error) {
	if s.answer != nil {
		return s.finalAnswer().closeLog(s.log), nil
	}
	res, err := s.outcome()
	if err != nil {
		startFailure(err).closeLog(s.log)
		return Result{}, err
	}
	res = res.closeLog(s.log)
	if s.ending != nil && s.ending.exit == ExitStopped && !errors.Is(context.Cause(ctx), ErrStopped) {
		return res, context.Cause(ctx)
	}
	return res, nil
}

// startFailure returns the Result of an attempt whose agent could not start because of this
// machine.
func startFailure(err error) Result {
	return Result{
		Status: Failed, Reason: err.Error(), Exit: ExitError, ExitCode: -1,
		Outage: &Outage{Kind: state.Obstacle, Reason: err.Error()},
	}
}

// find looks up the workdir and the program before the start, because its errors are better than
// the child's.
func (c Config) find(program, path string) (string, error) {
	if program == "" {
		return "", errors.New("turn.command is empty: name the program to run")
	}
	info, err := os.Stat(c.Workdir)
	if err != nil || !info.IsDir() {
		return "", fmt.Errorf("workdir %q is not a folder; create it, or set workdir in [turn]", c.Workdir)
	}
	return lookPath(program, path, c.Workdir)
}

// closeLog writes the last line of events.jsonl. If the log failed, the Result gets a note and is
// otherwise unchanged.
func (r Result) closeLog(log *eventLog) Result {
	err := log.end(endLine{
		Time: time.Now().UTC(), Kind: "end", Exit: r.Exit, ExitCode: r.ExitCode,
		Status: r.Status, Reason: r.Reason, Stderr: r.Stderr,
	})
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	return r
}

// Login returns the name of the agent's own credential, such as "agent:claude"
// (docs/design.md, "Credentials").
func (c Config) Login() string { return cmp.Or(c.LoginName, "agent:"+c.Runner) }

// credential returns the error for a refused login of the agent.
func (c Config) credential(reason string) error {
	return &state.CredentialError{Name: c.Login(), Err: errors.New(reason)}
}

// attemptCommand is the hidden subcommand of our own binary that calls Main.
const attemptCommand = "__attempt"

// The descriptors that the runner passes to Main, in the order of os/exec's ExtraFiles.
const (
	aliveFD = 3 + iota // alive, locked, open for reading
	goFD               // receives a byte when the process is recorded
	faultFD            // takes ready, then the error if the program cannot be started

	keptFD = 100 // the agent's descriptor of alive: shell scripts use the small numbers
)

// ready is Main's first message. It tells the runner that Main has begun.
const ready = "r"

// Main runs `__attempt PROGRAM ARGV0 [ARG…]`, with args from PROGRAM on. It waits until its
// runner has recorded it, and becomes the agent, which keeps the lock on alive. If the runner
// dies first, Main returns an error and no agent begins. If the program cannot be started, Main
// returns an error, and the runner reads the reason from the pipe.
//
// Main must run before any code catches signals. Otherwise a TERM that arrives before the exec is
// lost.
func Main(args []string) error {
	if len(args) < 2 {
		return errors.New(attemptCommand + " is for agentstateloop's own use")
	}
	if _, err := unix.FcntlInt(aliveFD, unix.F_DUPFD, keptFD); err != nil {
		return fmt.Errorf("%s: inherit alive: %w", attemptCommand, err)
	}
	for _, fd := range []int{aliveFD, goFD, faultFD} {
		unix.CloseOnExec(fd)
	}
	recorded, fault := os.NewFile(goFD, "go"), os.NewFile(faultFD, "fault")
	if _, err := fault.WriteString(ready); err != nil {
		return fmt.Errorf("%s: %w", attemptCommand, err)
	}
	if _, err := recorded.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("%s: the runner has ended: %w", attemptCommand, err)
	}
	defaultActions()
	err := unix.Exec(args[0], args[1:], os.Environ())
	_, writeErr := fault.WriteString(err.Error())
	return errors.Join(fmt.Errorf("start %s: %w", args[0], err), writeErr)
}

// defaultActions gives the next program the default actions of HUP and INT, as cron does. nohup
// ignores HUP, and a script ignores INT in the programs that it starts in the background. A shell
// that starts with an ignored signal can never catch it. A Go program ignores no other signals.
func defaultActions() {
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // exec(2) resets caught signals
		}
	}
}

// WithholdLock keeps the programs that this process starts from now on from inheriting the lock
// on alive. It has an effect only inside an attempt.
func WithholdLock() { unix.CloseOnExec(keptFD) }

// Status is how a turn ended (docs/design.md, "Turns").
type Status string

// The statuses. Partial means that the agent ended by itself with an incomplete answer: the
// stream broke off, the answer was truncated, or the agent left files but no text.
const (
	Success  Status = "success"
	Failed   Status = "failed"
	Canceled Status = "canceled"
	TimedOut Status = "timeout"
	Partial  Status = "partial"
)

// Exit is why the agent's process ended, as events.jsonl names it.
type Exit string

// The exits.
const (
	ExitClean   Exit = "clean"   // by itself, with exit code 0
	ExitIdle    Exit = "idle"    // done and lingering, ended by us
	ExitStopped Exit = "stopped" // ended from outside
	ExitError   Exit = "error"   // never started, or ended by an exit code, a signal or a timeout
)

// Usage counts tokens, as the agent reports them.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// Result is the outcome of one attempt.
type Result struct {
	Status Status

	// Text is the answer, or the available part of it if Status is not success. It is trimmed,
	// valid UTF-8 without control characters except newline and tab, of at most MaxText bytes. If
	// the answer is longer, TextFile names the file in the attempt's folder that holds it
	// unchanged, up to MaxOutput bytes.
	Text     string
	TextFile string

	// Reason explains in one sentence why Status is not success. It is empty for success. Notes
	// hold further remarks, such as a skipped file.
	Reason string
	Notes  []string

	Exit     Exit
	ExitCode int    // -1 if ended by a signal or never started
	Stderr   string // its last lines

	// Session is the agent's session to resume next time. SessionFailed means that the attempt
	// resumed a session and failed before it called a tool or answered. The caller should try
	// once more without the session.
	Session       string
	SessionFailed bool

	Worked bool // the agent called a tool

	// Refused lists the actions that the agent was denied, such as "Bash: git push", each once.
	Refused []string

	// Outage is set if the attempt can succeed later. Then the message is not at fault.
	Outage *Outage

	// Credential is a *state.CredentialError if the agent reported that it is not logged in or
	// has no credit left. Then the message is not at fault (docs/design.md, "Credentials").
	Credential error

	// Context is the number of tokens in the session at the end, and Window is the context window
	// of the model in tokens. Each is 0 if the agent does not report it. Calls is the number of
	// requests to the model, inferred from the agent's tool calls. If the agent does not report
	// Context, the usage per call gives an estimate.
	Context, Window int64
	Calls           int

	// Bill is the cost, as the agent reports it.
	Bill

	// Rest is set if the agent has answered and its process still lives. It waits for the end of
	// the process, at most Linger, and returns the Result with the final Bill, Exit and ExitCode.
	// The caller must call it.
	Rest func() Result

	// Output lists the files left in output/, slash-separated and sorted: only
	// regular files with printable names. OpenOutput opens them.
	Output []string
}
