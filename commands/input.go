package commands

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/account"
	"agentstateloop/state"
)

// maxText limits a text from standard input, in bytes.
const maxText = 4 << 20

// input reads the texts on a command line.
type input struct{ stdin io.Reader }

// text returns an argument, or standard input for "-".
func (in input) text(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := io.ReadAll(io.LimitReader(in.stdin, maxText+1))
	if err != nil {
		return "", fmt.Errorf("read message: %w", err)
	}
	if len(data) > maxText {
		return "", fmt.Errorf("read message: over %d bytes", maxText)
	}
	return string(data), nil
}

// beginning is like text, for a caller that does not know the length of its text. It truncates a
// long standard input, but reads it to the end.
func (in input) beginning(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := io.ReadAll(io.LimitReader(in.stdin, maxText))
	if err == nil {
		_, err = io.Copy(io.Discard, in.stdin)
	}
	if err != nil {
		return "", fmt.Errorf("read message: %w", err)
	}
	return string(data), nil
}

// message returns the text of argument n, which must not be blank.
func (in input) message(c *cli.Context, n int) (string, error) {
	text, err := in.text(c.Args().Get(n))
	if err == nil && strings.TrimSpace(text) == "" {
		err = terminal.Usagef("see "+c.Command.HelpName+" --help", "the message is empty")
	}
	return text, err
}

// handleAndText parses the arguments HANDLE and TEXT.
func (in input) handleAndText(c *cli.Context) (to, text string, err error) {
	if err := arguments(c, 2, 2); err != nil {
		return "", "", err
	}
	if to, err = parseHandle(c.Args().First()); err != nil {
		return "", "", err
	}
	text, err = in.message(c, 1)
	return to, text, err
}

// parseHandle parses a handle, with or without its "@".
func parseHandle(text string) (string, error) {
	handle := strings.TrimPrefix(text, "@")
	if !state.ValidHandle(handle) {
		return "", terminal.Usagef("a handle has a-z, 0-9 and -, at most 32, with or without the @", "%q is not a valid handle", text)
	}
	return handle, nil
}

// userName returns the name of the current user, for the history.
func userName() string {
	u, _ := account.Current()
	return cmp.Or(u.Name, "operator")
}
