package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/turn"
	"agentstateloop/turn/box"
)

const name = terminal.Program

// attemptCommand is the hidden subcommand that starts the agent's process for package turn,
// which also reads the arguments.
const attemptCommand = "__attempt"

// Run runs the program and returns the exit code (docs/protocol.md, "Exit codes
// and errors"). args and environ are as in os.Args and os.Environ. Data goes to
// stdout, everything else to stderr. Run never exits itself.
func Run(ctx context.Context, build Build, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	p := program{
		build: build,
		stdin: stdin,
		out: terminal.Output{
			Stdout: stdout, Stderr: stderr,
			Columns: terminal.ColumnsOf(stdout), ErrColumns: terminal.ColumnsOf(stderr),
			Rows: terminal.RowsOf(stdout),
		},
		loader: &config.Loader{
			Environ:    environ,
			Account:    account.Current,
			Executable: os.Executable,
			Version:    build.version(),
			Now:        time.Now,
			Secrets:    new(secret.Known),
		},
		proc: "/proc",
	}
	log.SetOutput(p.loader.Secrets.Writer(stderr)) // net/http logs the words of servers, and the panics of handlers
	return p.run(ctx, args)
}

// program holds the streams, the environment and the clock of one run.
type program struct {
	build  Build
	stdin  io.Reader
	unread func() bool // reports whether the reader of stdout has gone
	raw    io.Writer   // stdout as it is, for an archive
	out    terminal.Output
	loader *config.Loader // holds the environment, the clock and the secrets
	loaded []*cycle.Agent // agents of this run
	proc   string         // where the kernel shows its processes; for doctor
	json   bool           // the command line asks for JSON, even if it is otherwise wrong
	global globalOptions
}

// globalOptions are the flags of all commands.
type globalOptions struct {
	agent, config string
	json          bool
}

// now returns the time of the program's clock.
func (p *program) now() time.Time { return p.loader.Now() }

// Become replaces this process with the agent, or with the program of its exec tool, if the
// arguments are a hidden subcommand for that. On success it does not return, or it returns the
// exit code of the program that it ran in a sandbox. After a failure, code is the exit code. ok
// is false for any other arguments. Do not catch signals before Become is called.
func Become(args []string, stderr io.Writer) (code int, ok bool) {
	if len(args) < 2 {
		return 0, false
	}
	become, ok := map[string]func([]string) error{
		attemptCommand: turn.Main,
		box.Stage:      box.Main,

		box.EscapesCommand: box.TryEscapes,
	}[args[1]]
	if !ok {
		return 0, false
	}
	err := become(args[2:])
	if exit := box.Exit(0); errors.As(err, &exit) {
		return int(exit), true
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: error: %v\n", name, err)
	}
	return exitError, true
}

// run does the work of Run. Its output, including a crash report, never contains a secret that
// this process has read.
func (p *program) run(ctx context.Context, args []string) (code int) {
	stdout := p.out.Stdout
	p.unread, p.raw = func() bool { return terminal.Unread(stdout) }, stdout
	out := &errWriter{Writer: stdout}
	p.out.Redact = p.loader.Secrets.Redact
	p.out.Stdout, p.out.Stderr = p.loader.Secrets.Writer(out), p.loader.Secrets.Writer(p.out.Stderr)
	defer func() {
		// The runtime would print the value unredacted, and it may contain the words of a
		// server.
		if v := recover(); v != nil {
			fmt.Fprintf(p.out.Stderr, "%s: error: internal: %v\n%s%s: hint: nothing recorded is lost; please report this\n", name, v, debug.Stack(), name)
			p.failed(coded(codeInternal, terminal.WithHint(fmt.Errorf("internal: %v", v), "nothing recorded is lost; please report this")))
			code = exitError
		}
	}()
	if len(args) > 1 && args[1] == completeCommand {
		p.complete(ctx, args[2:])
		return exitDone
	}
	if len(args) > 1 && args[1] == turn.ACPCommand {
		return p.acp(ctx, args[2:])
	}
	p.loader.Explain = explain
	err := p.command(ctx, tail(args))
	p.leaveHooks()
	for _, a := range p.loaded {
		a.Close()
	}
	if out.err != nil && (err == nil || errors.Is(err, out.err)) {
		err = terminal.WithHint(out.err, "the command did its work, but its output could not be written")
	}
	if err != nil {
		if text := err.Error(); text != "" {
			p.out.Error(text, hintOf(err))
		}
		p.failed(err)
	}
	return exitCode(err)
}

// leaveHooks starts a detached process that calls the hooks for the commits of this run.
func (p *program) leaveHooks() {
	for _, a := range p.loaded {
		if err := a.LeaveHooks(); err != nil {
			p.out.Warn("%v; the next poll calls the hooks", err)
		}
	}
}

// errWriter remembers a failed write, because most callers do not check for one.
type errWriter struct {
	io.Writer
	err error
}

func (w *errWriter) Write(text []byte) (int, error) {
	n, err := w.Writer.Write(text)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

// command runs the command named in the arguments.
func (p *program) command(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == "--version" {
		return p.printVersion() // does not need the command line
	}
	app := p.appFor(args)
	p.json = wantsJSON(app, args)
	return p.runApp(ctx, app, args)
}

func (p *program) runApp(ctx context.Context, app *cli.App, args []string) error {
	arranged, err := arrange(app, args)
	if err != nil {
		_, err = arrange(p.app(), args) // because the error may list all commands
		return err
	}
	asked := arrangeLoosely(app, args)
	switch {
	case !asked.help && asked.hasSwitch(cli.VersionFlag.Names()...):
		return p.printVersion()
	case len(asked.commands) == 0 && !asked.help && asked.hasSwitch("a", "agent", "config"):
		return terminal.Usagef(fmt.Sprintf("name a command: %s %s status; %[1]s --help lists the commands", name, strings.Join(args, " ")), "no command was given")
	case p.json && (asked.help || len(asked.commands) == 0):
		return p.helpAsJSON(app, asked, arranged)
	}
	err = app.RunContext(ctx, append([]string{name}, arranged...))
	if page, ok := app.Writer.(*terminal.Page); ok {
		err = cmp.Or(err, page.Flush())
	}
	return err
}

func tail(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	return args[1:]
}
