package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"agentstateloop/internal/capture"
)

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
	program := c.resolveProgram(argv[0])
	ctx, cancel := withSecretTimeout(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Env = l.Environ
	printed, err := capture.Run(ctx, cmd, capture.Limits{Stdout: MaxSecret, Stderr: MaxSecret})
	switch {
	case errors.Is(err, capture.ErrTooMuch):
		return "", fmt.Errorf("read secret: what %s prints is longer than %d bytes, so it was stopped; it must print the secret on one line, and end", program, MaxSecret)
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
		return "", fmt.Errorf("read secret: %s is longer than %d bytes", from, MaxSecret)
	case strings.ContainsAny(s, "\r\n\x00"):
		return "", fmt.Errorf("read secret: %s has more than one line", from)
	}
	return s, nil
}
