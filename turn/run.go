package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentstateloop/state"
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
		return Result{Status: Canceled, Reason: "stopped before it began", Exit: ExitStopped, ExitCode: -1}, nil
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
		if a.offered, err = c.toolServer(env).offer(c.Runner, &a, env); err != nil {
			missing = fmt.Sprintf("the agent has our commands, and not our tools: %v", err)
		}
	}
	argv := kind.argv(command, a)
	log := openEventLog(a.Dir, c.MaxEvents)
	first := startLine{Time: time.Now().UTC(), Kind: "start", Version: c.Version, Runner: c.Runner, Argv: argv, Workdir: c.Workdir, Note: missing}

	path, err := c.find(argv[0], env["PATH"])
	if err != nil {
		log.line(first)
		return failed(err).closeLog(log), nil
	}
	var host *ACPSettings
	if kind.hosted {
		host = &ACPSettings{Session: a.Session, Grants: a.Grants, Options: c.Options, Settle: c.Settle, Linger: c.Linger, MayBeSilent: a.MayBeSilent}
		if c.MCP {
			host.Tools = c.toolServer(env).acpTools()
		}
	}
	entered, err := c.entered(ctx, a, path, argv, env, host)
	if err != nil {
		log.line(first)
		return failed(err).closeLog(log), nil
	}
	if c.Box != nil || host != nil {
		path = entered[0]
	}
	p, err := c.start(a, path, entered, env)
	if err != nil {
		log.line(first)
		failed(err).closeLog(log)
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
		failed(err).closeLog(s.log)
		return Result{}, err
	}
	res = res.closeLog(s.log)
	if s.ending != nil && s.ending.exit == ExitStopped && !errors.Is(context.Cause(ctx), ErrStopped) {
		return res, context.Cause(ctx)
	}
	return res, nil
}

// failed returns the Result of an attempt whose agent could not start because of this machine.
func failed(err error) Result {
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
func (c Config) credential(said string) error {
	return &state.CredentialError{Name: c.Login(), Err: errors.New(said)}
}
