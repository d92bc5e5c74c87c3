package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	secretPatience = 10 * time.Second // for password_command
	longestSecret  = 64 << 10         // bytes; OAuth tokens are long, files named by mistake longer
)

// secretSource says where a secretSource is found (DESIGN 10): in a file, an environment
// variable or the first line of what a command prints.
type secretSource struct {
	file    string
	env     string
	command []string
	login   bool // `login` writes the file
}

// namesSecret recognises the variables of an agent that hold one.
var namesSecret = regexp.MustCompile(`(?i)(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSPHRASE)$`)

// ways counts how many of the three are set.
func (s secretSource) ways() int {
	n := 0
	for _, set := range []bool{s.file != "", s.env != "", len(s.command) > 0} {
		if set {
			n++
		}
	}
	return n
}

// secret returns what reads a secret anew at each call, and from then on keeps
// it out of what this process prints and records. Its errors name the place and
// never hold any part of what was found there.
func (p *program) secret(c *config, s secretSource) func(context.Context) (string, error) {
	read := p.reader(c, s)
	if s.env != "" {
		p.secrets.Learn(s.env, p.env(s.env)) // whatever we start can see it, and say it
	}
	name := s.file + "\x00" + s.env + "\x00" + strings.Join(s.command, "\x00")
	return func(ctx context.Context) (string, error) {
		value, err := read(ctx)
		p.secrets.Learn(name, value)
		if err != nil {
			err = &unread{err}
		}
		return value, err
	}
}

// unread is a secret that could not be read: no server has refused anything.
type unread struct{ error }

func (e *unread) Unwrap() error { return e.error }

func (p *program) reader(c *config, s secretSource) func(context.Context) (string, error) {
	switch {
	case s.file != "":
		path := c.resolve(s.file)
		return func(context.Context) (string, error) { return readSecretFile(path) }
	case s.env != "":
		return func(context.Context) (string, error) { return p.readSecretEnv(s.env) }
	default:
		return func(ctx context.Context) (string, error) { return p.readSecretCommand(ctx, c, s.command) }
	}
}

// secretFile is secret for a path of the command line.
func (p *program) secretFile(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		value, err := readSecretFile(path)
		p.secrets.Learn(path, value)
		return value, err
	}
}

// readSecretFile reads a regular file that only its owner can read. One
// newline at its end is not part of the secret.
func readSecretFile(path string) (string, error) {
	data, err := readPrivate(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	text := strings.TrimSuffix(string(data), "\n")
	return usable(strings.TrimSuffix(text, "\r"), path)
}

// readPrivate reads a regular file that only its owner can read, and of a long
// one longestSecret+1 bytes.
func readPrivate(path string) ([]byte, error) {
	// Without O_NONBLOCK a FIFO in its place would hold us for ever.
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
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %04o): run chmod 600 on it", path, info.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(f, longestSecret+1))
}

func (p *program) readSecretEnv(key string) (string, error) {
	value := p.env(key)
	if value == "" {
		return "", fmt.Errorf("read secret: the environment variable %s is not set (cron passes none of your shell's on)", key)
	}
	return usable(value, "$"+key)
}

// readSecretCommand runs a command without a shell and takes the first line it
// prints. What it says on stderr is dropped, since it might hold the secret.
func (p *program) readSecretCommand(ctx context.Context, c *config, argv []string) (string, error) {
	program := argv[0]
	if strings.HasPrefix(program, "~/") || strings.Contains(program, "/") {
		program = c.resolve(program)
	}
	ctx, cancel := context.WithTimeout(ctx, secretPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Env = p.environ
	out := &firstBytes{most: longestSecret + 1}
	cmd.Stdout = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A child of the command that keeps stdout open must not hold us either.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("read secret: %s did not end within %v", program, secretPatience)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("read secret: %s: %w; run it by hand to see why", program, err)
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	return usable(strings.TrimSuffix(line, "\r"), program)
}

// usable refuses what cannot be a secret and would break a protocol.
func usable(s, from string) (string, error) {
	switch {
	case s == "":
		return "", fmt.Errorf("read secret: %s holds none", from)
	case len(s) > longestSecret:
		return "", fmt.Errorf("read secret: %s holds over %d bytes", from, longestSecret)
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
