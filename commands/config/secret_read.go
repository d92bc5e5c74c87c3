package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// LongestSecret bounds a secret, in bytes. OAuth tokens are long; files named by
// mistake are longer.
const LongestSecret = 64 << 10

// secretTimeout bounds password_command and its like.
const secretTimeout = 10 * time.Second

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

// readSecretFile reads a regular file that only its owner can read. One newline
// at its end is not part of the secret.
func readSecretFile(path string) (string, error) {
	data, err := ReadPrivate(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	text := strings.TrimSuffix(string(data), "\n")
	return CheckSecret(strings.TrimSuffix(text, "\r"), path)
}

// ReadPrivate reads a regular file that only its owner can read. Of a long one
// it returns the first LongestSecret+1 bytes.
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
		return nil, fmt.Errorf("%s can be read by others (mode %04o): run chmod 600 on it", path, info.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(f, LongestSecret+1))
}

func (l *Loader) readSecretEnv(key string) (string, error) {
	value := l.Env(key)
	if value == "" {
		return "", fmt.Errorf("read secret: the environment variable %s is not set (cron does not pass on your shell's variables)", key)
	}
	return CheckSecret(value, "$"+key)
}

// readSecretCommand runs a command without a shell and takes the first line it
// prints. What it prints on stderr is dropped, since it might hold the secret.
func (l *Loader) readSecretCommand(ctx context.Context, c *Config, argv []string) (string, error) {
	program := c.resolveProgram(argv[0])
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Env = l.Environ
	out := &firstBytes{most: LongestSecret + 1}
	cmd.Stdout = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A child of the command may keep stdout open.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("read secret: %s did not end within %v", program, secretTimeout)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("read secret: %s: %w; run it by hand to see why", program, err)
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	return CheckSecret(strings.TrimSuffix(line, "\r"), program)
}

// CheckSecret returns s, or an error if s cannot be a secret or would break a
// protocol. from names the place and stands in the error.
func CheckSecret(s, from string) (string, error) {
	switch {
	case s == "":
		return "", fmt.Errorf("read secret: %s is empty", from)
	case len(s) > LongestSecret:
		return "", fmt.Errorf("read secret: %s holds over %d bytes", from, LongestSecret)
	case strings.ContainsAny(s, "\r\n\x00"):
		return "", fmt.Errorf("read secret: %s holds more than one line", from)
	}
	return s, nil
}

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct {
	bytes.Buffer
	most int
}

func (b *firstBytes) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}
