package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/user"
	"runtime/debug"
	"strconv"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/secret"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

const name = terminal.Program

// attemptCommand is the hidden subcommand with which package turn starts the
// agent's process; the rest of the arguments is its own affair.
const attemptCommand = "__attempt"

// Run runs the program: args and environ are as in os.Args and os.Environ.
// Data goes to stdout, everything else to stderr. It returns the exit code
// (DESIGN 11): 0 done or nothing to do, 1 error, 2 usage or configuration, 3
// the cycle ran but a source failed, 75 busy. It never exits itself.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	p := program{
		stdin: stdin,
		out:   terminal.Output{Stdout: stdout, Stderr: stderr},
		loader: &config.Loader{
			Environ:    environ,
			Home:       userHome,
			Executable: os.Executable,
			Version:    version(),
			Now:        time.Now,
			Secrets:    new(secret.Known),
		},
		proc: "/proc",
	}
	log.SetOutput(p.loader.Secrets.Writer(stderr)) // net/http prints there what a server said, or of a handler's panic
	return p.run(ctx, args)
}

// program is what a run of the program stands on.
type program struct {
	stdin  io.Reader
	out    terminal.Output
	loader *config.Loader // holds the environment, the clock and the secrets
	proc   string         // where the kernel shows its processes; doctor looks there
}

// Attempt does what a hidden subcommand asks for, and returns the exit code; ok
// is false for any other arguments. It returns only if the agent, or the
// program that its exec tool is to run, could not be started, for else this
// process has become that. Nothing may catch signals before it is called.
func Attempt(args []string, stderr io.Writer) (code int, ok bool) {
	if len(args) < 2 {
		return 0, false
	}
	become, ok := map[string]func([]string) error{
		attemptCommand:        turn.Main,
		react.ConfinedCommand: react.Confine,
	}[args[1]]
	if !ok {
		return 0, false
	}
	if err := become(args[2:]); err != nil {
		fmt.Fprintf(stderr, "%s: error: %v\n", name, err)
	}
	return exitError, true
}

// run is Run. Nothing that it prints holds a secret that this process has read,
// be it told of a crash.
func (p *program) run(ctx context.Context, args []string) (code int) {
	out := &written{Writer: p.out.Stdout}
	p.out.Stdout, p.out.Stderr = p.loader.Secrets.Writer(out), p.loader.Secrets.Writer(p.out.Stderr)
	defer func() {
		// What the runtime prints of a crash are the value and pointers: the value
		// may be a server's words.
		if v := recover(); v != nil {
			fmt.Fprintf(p.out.Stderr, "%s: error: internal: %v\n%s%s: hint: nothing recorded is lost; please report this\n", name, v, debug.Stack(), name)
			code = exitError
		}
	}()
	err := p.runApp(ctx, args)
	if out.err != nil && (err == nil || errors.Is(err, out.err)) {
		err = terminal.WithHint(out.err, "the command did its work; only what it had to say did not arrive")
	}
	if err != nil {
		p.out.Error(err.Error(), hintOf(err))
	}
	return exitCode(err)
}

// written remembers that a write failed: most that is printed asks nobody.
type written struct {
	io.Writer
	err error
}

func (w *written) Write(text []byte) (int, error) {
	n, err := w.Writer.Write(text)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

func (p *program) runApp(ctx context.Context, args []string) error {
	app := p.app()
	arranged, err := arrange(app, tail(args))
	if err != nil {
		return err
	}
	return app.RunContext(ctx, append([]string{name}, arranged...))
}

func tail(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	return args[1:]
}

// userHome is the home of the user who runs us, from the user database: cron,
// shells and daemons must agree on it, and do not agree on $HOME (DESIGN 4).
func userHome() (string, error) {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return "", fmt.Errorf("look up home of user %d: %w", os.Getuid(), err)
	}
	if u.HomeDir == "" {
		return "", fmt.Errorf("user %s has no home in the user database", u.Username)
	}
	return u.HomeDir, nil
}
