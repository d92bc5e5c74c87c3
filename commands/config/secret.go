package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/lazy"
)

// Source is the place of a secret (docs/design.md, "Credentials"). A valid configuration sets at
// most one of the first three fields.
type Source struct {
	File    string
	Env     string   // name of an environment variable
	Command []string // prints the secret as its first line
	Login   bool     // `login` writes File
}

// secretName matches the names of environment variables that hold a secret.
var secretName = lazy.NewRegexp(`(?i)(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSPHRASE)$`)

// CountSet returns how many of File, Env and Command are set.
func (s Source) CountSet() int {
	n := 0
	for _, set := range []bool{s.File != "", s.Env != "", len(s.Command) > 0} {
		if set {
			n++
		}
	}
	return n
}

// Equal reports whether two sources are the same place.
func (s Source) Equal(t Source) bool {
	return s.File == t.File && s.Env == t.Env && slices.Equal(s.Command, t.Command)
}

// Secret returns a function that reads a secret again at each call. Once read, the secret is
// redacted in the output and the records of this process. An error of the function is an
// *UnreadError. It names the place of the secret, and never contains a part of the content found
// there.
func (l *Loader) Secret(c *Config, s Source) func(context.Context) (string, error) {
	read := l.reader(c, s)
	if s.Env != "" {
		l.Secrets.Learn(s.Env, l.Env(s.Env)) // every process that we start can print it
	}
	name := s.File + "\x00" + s.Env + "\x00" + strings.Join(s.Command, "\x00")
	return func(ctx context.Context) (string, error) {
		value, err := read(ctx)
		l.Secrets.Learn(name, value)
		if err != nil {
			err = &UnreadError{err}
		}
		return value, err
	}
}

// UnreadError reports that a secret could not be read. It does not mean that a server rejected it.
type UnreadError struct{ error }

func (e *UnreadError) Unwrap() error { return e.error }

// SecretFile returns a function that reads a secret again at each call from a file named on the
// command line. Once read, the secret is redacted.
func (l *Loader) SecretFile(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		value, err := readSecretFile(path)
		l.Secrets.Learn(path, value)
		if err != nil {
			err = &UnreadError{err}
		}
		return value, err
	}
}

// MaxSecret limits a secret, in bytes. OAuth tokens are long, but files named by mistake are
// longer.
const MaxSecret = 64 << 10

// secretTimeout limits the running time of a command that prints a secret.
const secretTimeout = 10 * time.Second

// reader returns the function that reads a secret from its place.
func (l *Loader) reader(c *Config, s Source) func(context.Context) (string, error) {
	switch {
	case s.File != "":
		path := c.Resolve(s.File)
		return func(context.Context) (string, error) { return readSecretFile(path) }
	case s.Env != "":
		return func(context.Context) (string, error) { return l.readSecretEnv(s.Env) }
	default:
		return func(ctx context.Context) (string, error) { return l.readSecretCommand(ctx, c, s.Command) }
	}
}

// readSecretFile returns the secret in a regular file that only its owner can read. A final newline
// is not part of the secret.
func readSecretFile(path string) (string, error) {
	data, err := ReadPrivate(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	text := strings.TrimSuffix(string(data), "\n")
	return CheckSecret(strings.TrimSuffix(text, "\r"), path)
}

// ReadPrivate reads a regular file that only its owner can read. It returns at
// most MaxSecret+1 bytes.
func ReadPrivate(path string) ([]byte, error) {
	// Without O_NONBLOCK the open of a FIFO would block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is readable by others (mode %04o): run `chmod 600 %[1]s`", path, info.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(f, MaxSecret+1))
}

// readSecretEnv returns the secret in an environment variable.
func (l *Loader) readSecretEnv(key string) (string, error) {
	value := l.Env(key)
	if value == "" {
		return "", fmt.Errorf("read secret: environment variable %s is not set (cron jobs do not get your shell's variables)", key)
	}
	return CheckSecret(value, "$"+key)
}

// withSecretTimeout returns the context of a command that prints a secret.
func withSecretTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, secretTimeout)
}

// readSecretCommand runs a command without a shell and returns the first line of its output. It
// discards the command's stderr, which could contain the secret. It kills a command that prints
// more than MaxSecret bytes to stdout or stderr.
func (l *Loader) readSecretCommand(ctx context.Context, c *Config, argv []string) (string, error) {
	program := c.ResolveProgram(argv[0])
	ctx, cancel := withSecretTimeout(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Env = l.Environ
	printed, err := capture.Run(ctx, cmd, capture.Limits{Stdout: MaxSecret, Stderr: MaxSecret})
	switch {
	case errors.Is(err, capture.ErrTooMuch):
		return "", fmt.Errorf("read secret: the output of %s exceeds %d bytes; it must print the secret on one line and exit", program, MaxSecret)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("read secret: %s timed out after %v", program, secretTimeout)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("read secret: %s: %w; run it yourself to see why", program, err)
	}
	line, _, _ := strings.Cut(string(printed.Stdout), "\n")
	return CheckSecret(strings.TrimSuffix(line, "\r"), program)
}

// CheckSecret returns s if it can be a secret: one line, not empty and not too long. Its error
// names from, the place of the secret.
func CheckSecret(s, from string) (string, error) {
	switch {
	case s == "":
		return "", fmt.Errorf("read secret: %s is empty", from)
	case len(s) > MaxSecret:
		return "", fmt.Errorf("read secret: %s exceeds %d bytes", from, MaxSecret)
	case strings.ContainsAny(s, "\r\n\x00"):
		return "", fmt.Errorf("read secret: %s has more than one line", from)
	}
	return s, nil
}
