package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"agentstateloop/internal/secret"
)

// asker gets what flags have not said: from the person at a terminal, or not
// at all.
type asker struct {
	terminal *os.File // nil: there is none
	lines    *bufio.Reader
	out      io.Writer
	secrets  *secret.Known
}

func (p *program) asker() *asker {
	f, ok := p.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &asker{}
	}
	return &asker{terminal: f, lines: bufio.NewReader(f), out: p.stderr, secrets: &p.secrets}
}

// errNobody is what a person gets who ends the questions.
var errNobody = &hinted{errors.New("interrupted: nothing was written"), "run init again, or give flags: see agentstateloop init --help"}

// ask gives value if that is set and right. Else, at a terminal, it asks until
// the answer is right, an empty one being the guess. Elsewhere what is missing
// is a usageError that names the flag: a guess is for a person to confirm.
func (a *asker) ask(ctx context.Context, value, flag, question, guess string, check func(string) error) (string, error) {
	if value != "" {
		if err := check(value); err != nil {
			return "", usagef("", "--%s %s: %v", flag, value, err)
		}
		return value, nil
	}
	if a.terminal == nil {
		return "", usagef("see agentstateloop init --help", "--%s is missing, and there is no terminal to ask at: %s", flag, question)
	}
	prompt := question + ": "
	if guess != "" {
		prompt = fmt.Sprintf("%s [%s]: ", question, guess)
	}
	for {
		answer, err := a.line(ctx, prompt)
		if err != nil {
			return "", err
		}
		if answer == "" {
			answer = guess
		}
		if answer == "" {
			continue
		}
		if err = check(answer); err == nil {
			return answer, nil
		}
		fmt.Fprintf(a.out, "  %s: %v\n", printable(answer), err)
	}
}

// line asks for one line. When ctx ends, nobody waits for it any more.
func (a *asker) line(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(a.out, prompt)
	answer, err := await(ctx, a.secrets, func() (string, error) { return a.lines.ReadString('\n') })
	if err != nil {
		fmt.Fprintln(a.out)
		return "", errNobody
	}
	return strings.TrimSpace(answer), nil
}

// secret asks for a line that is not shown.
func (a *asker) secret(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(a.out, prompt)
	defer fmt.Fprintln(a.out)
	fd := int(a.terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("ask for a password: %w", err)
	}
	// Whoever is interrupted here must find his terminal with its echo.
	defer term.Restore(fd, before)
	answer, err := await(ctx, a.secrets, func() (string, error) {
		text, err := term.ReadPassword(fd)
		return string(text), err
	})
	if err != nil {
		return "", errNobody
	}
	return strings.TrimSpace(answer), nil
}

// await gives up a read that nothing can end when ctx does.
func await(ctx context.Context, secrets *secret.Known, read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	go secrets.Guarded(func() {
		text, err := read()
		got <- answer{text, err}
	})()
	select {
	case a := <-got:
		return a.text, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
