package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"agentstateloop/internal/secret"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Asker asks the user at a terminal for values that no flag sets. Without a terminal it cannot ask,
// and collects the missing and wrong values.
type Asker struct {
	terminal  *os.File // nil if standard input is not a terminal
	lines     *bufio.Reader
	out       *Output
	secrets   *secret.Known
	passwords []string  // the answers of Secret
	problems  []problem // see Problems
}

// NewAsker returns an Asker that reads from stdin if that is a terminal. It prints its questions to
// the standard error of out.
func NewAsker(stdin io.Reader, out *Output, secrets *secret.Known) *Asker {
	f, ok := stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &Asker{}
	}
	return &Asker{terminal: f, lines: bufio.NewReader(f), out: out, secrets: secrets}
}

// CanAsk reports whether the Asker has a terminal.
func (a *Asker) CanAsk() bool { return a.terminal != nil }

// errInterrupted reports that the user ended the questions with an interrupt or an end of file.
var errInterrupted = WithHint(errors.New("interrupted: nothing was written"), "run init again, or use flags: see agentstateloop init --help")

// Question asks for one value.
type Question struct {
	Flag  string             // sets the value in a script; without the dashes
	Text  string             // the question, without a colon
	Guess string             // the answer for an empty line; if it is "", Ask repeats the question
	Check func(string) error // its error continues a sentence that begins with the answer

	// Try tries an answer that has passed Check, at a terminal only. It may be nil. If it fails,
	// Ask prints its error and its hint, and the user may keep the answer or give another.
	Try func(ctx context.Context, answer string) error
}

// Ask returns value if it is not empty and passes the check. Otherwise it asks at the terminal
// until an answer passes. Without a terminal, it records a missing or wrong value as a problem
// (Problems) and returns "", because only a person can confirm a guess.
func (a *Asker) Ask(ctx context.Context, value string, q Question) (string, error) {
	if value != "" {
		if err := q.Check(value); err != nil {
			return "", a.Wrong("", "--%s %s: %v", q.Flag, value, err)
		}
		if good, err := a.accept(ctx, q, value); good || err != nil {
			return value, err
		}
		q.Guess = value
	}
	if !a.CanAsk() {
		a.Missing("--"+q.Flag, q.Text)
		return "", nil
	}
	prompt := q.Text + ": "
	if q.Guess != "" {
		prompt = fmt.Sprintf("%s [%s]: ", q.Text, q.Guess)
	}
	for {
		answer, err := a.line(ctx, prompt)
		if err != nil {
			return "", err
		}
		if answer == "" {
			answer = q.Guess
		}
		if answer == "" {
			continue
		}
		if slices.Contains(a.passwords, answer) {
			a.Tell("that is the password you just typed; it was not sent: type another answer")
			continue
		}
		if err = q.Check(answer); err != nil {
			a.Tell("%s: %v", answer, err)
			continue
		}
		if good, err := a.accept(ctx, q, answer); good || err != nil {
			return answer, err
		}
	}
}

// accept tries an answer at the terminal, and reports whether to take it: either it works, or the
// user keeps it anyway.
func (a *Asker) accept(ctx context.Context, q Question, answer string) (bool, error) {
	if q.Try == nil || !a.CanAsk() {
		return true, nil
	}
	err := q.Try(ctx, answer)
	if err == nil {
		return true, nil
	}
	return a.Keep(ctx, err, "use it anyway?")
}

// Keep prints an error, and asks whether to continue anyway.
func (a *Asker) Keep(ctx context.Context, err error, question string) (bool, error) {
	if ctx.Err() != nil {
		return false, errInterrupted
	}
	a.Tell("%v", err)
	if hint := HintOf(err); hint != "" {
		a.Tell("hint: %s", hint)
	}
	return a.Confirm(ctx, question)
}

// Confirm asks a question. Only "y" and "yes" mean yes.
func (a *Asker) Confirm(ctx context.Context, question string) (bool, error) {
	answer, err := a.line(ctx, question+" [y/N]: ")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// Tell prints an indented line between the questions.
func (a *Asker) Tell(format string, args ...any) {
	a.out.Aside(fmt.Sprintf(format, args...))
}

// line prints prompt and returns the next line. It stops waiting when ctx ends.
func (a *Asker) line(ctx context.Context, prompt string) (string, error) {
	a.out.Prompt(prompt)
	answer, err := await(ctx, a.secrets, func() (string, error) { return a.lines.ReadString('\n') })
	if err != nil {
		fmt.Fprintln(a.out.Stderr)
		return "", errInterrupted
	}
	return strings.TrimSpace(answer), nil
}

// Secret prints prompt and returns the next line, which the terminal does not echo. Ask rejects the
// same text as an answer, because it would be displayed and sent.
func (a *Asker) Secret(ctx context.Context, prompt string) (string, error) {
	a.out.Prompt(prompt)
	defer fmt.Fprintln(a.out.Stderr)
	fd := int(a.terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("ask for a password: %w", err)
	}
	// The terminal must echo again after an interrupt.
	defer term.Restore(fd, before)
	answer, err := await(ctx, a.secrets, func() (string, error) {
		text, err := term.ReadPassword(fd)
		return string(text), err
	})
	if err != nil {
		return "", errInterrupted
	}
	answer = strings.TrimSpace(answer)
	if answer != "" {
		a.passwords = append(a.passwords, answer)
	}
	return answer, nil
}

// await returns the result of read, or the error of ctx if that ends first. In that case read keeps
// running, because it cannot be interrupted.
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

// Unread reports whether w is a pipe or a terminal whose other end is closed, so that its output is
// never read.
func Unread(w io.Writer) bool {
	f, ok := w.(syscall.Conn)
	if !ok {
		return false
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	err = conn.Control(func(fd uintptr) {
		end := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(end, 0)
		closed = err == nil && n > 0 && end[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && closed
}

// Nearest returns the candidate that a mistyped word most likely means. It returns "" if no
// candidate is similar enough.
func Nearest(word string, candidates []string) string {
	best, distance := "", max(1, min(3, len(word)/2))+1
	for _, c := range candidates {
		if d := edits(word, c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// DidYouMean returns a hint with the nearest candidate, or other if Nearest finds no candidate.
func DidYouMean(word string, candidates []string, other string) string {
	if near := Nearest(word, candidates); near != "" {
		return "did you mean " + near + "?"
	}
	return other
}

// edits returns the number of insertions, deletions, replacements and swaps of neighboring bytes
// that turn a into b.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, slices.Clone(before)
	}
	return last[len(b)]
}
