package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/mail"
	"agentstateloop/state"

	"github.com/BurntSushi/toml"
)

// handleHint is the hint for an invalid handle.
const handleHint = "use a-z, 0-9 and -, at most 32 characters, without the @"

// checkHandle checks the agent's handle.
func (c *Config) checkHandle() error {
	handle := c.File.Agent.Handle
	if handle == "" {
		return c.Missing("agent.handle", `give your agent a name, such as handle = "goulard3120"`)
	}
	if !state.ValidHandle(handle) {
		return c.At(splitKey("agent.handle"), handleHint, "%q is not a valid handle", handle)
	}
	return nil
}

// stateFolder returns the folder of the default state directories of all the user's agents.
func (c *Config) stateFolder() string {
	return filepath.Join(c.home, ".local", "state", terminal.Program)
}

// roots returns the agent's cache of the system's root certificates.
func (c *Config) roots() *mail.Roots {
	if c.systemRoots == nil {
		c.systemRoots = mail.NewRoots(filepath.Join(c.StateDir().Path, "roots"))
	}
	return c.systemRoots
}

// operators returns the operator's addresses, at least one. own is the agent's address.
func (c *Config) operators(own string) ([]string, error) {
	const key = "agent.operator"
	var addresses []string
	for _, text := range c.File.Agent.Operator {
		address, err := c.address(key, text)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(address, own) {
			return nil, c.At(splitKey(key), "give the agent a mailbox of its own", "%s is the agent's own address (mail.address)", address)
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 0 {
		return nil, c.Missing(key, `add your own email address, such as operator = ["you@example.com"]`)
	}
	return addresses, nil
}

// Config is a parsed agent.toml. Its methods check single sections.
type Config struct {
	Path string // absolute
	File File

	text string
	meta toml.MetaData
	home string // the user's home folder, for "~"

	systemRoots *mail.Roots // see roots

	fallback int // number, from 1, of the fallback that replaces the usual runner; 0 for the usual runner
}

// Read reads an agent.toml. It checks the syntax, the keys and the types of the values; Wire checks
// their meaning. An error about the file is an *Error.
func (l *Loader) Read(path string) (*Config, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return l.Parse(path, text)
}

// Parse checks text like Read checks a file. Errors name path, which need not exist.
func (l *Loader) Parse(path, text string) (*Config, error) {
	c, err := l.decode(path, text)
	if err != nil {
		return nil, err
	}
	if err := c.checkKeys(); err != nil {
		return nil, err
	}
	return c, nil
}

// ReadLoosely reads an agent.toml like Read, but ignores unknown keys, so that doctor can check the
// rest.
func (l *Loader) ReadLoosely(path string) (*Config, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return l.decode(path, text)
}

// readFile returns the text of a configuration. Any error is an *Error.
func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &Error{Path: path, Text: "not found", Advice: "run `agentstateloop init` to create one"}
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // Error names the path
	}
	if errors.Is(err, syscall.EISDIR) {
		return "", &Error{Path: path, Text: "is a folder", Advice: "name the file inside: --config " + filepath.Join(path, "agent.toml")}
	}
	if err != nil {
		return "", &Error{Path: path, Text: fmt.Sprintf("cannot be read: %v", err), Advice: "make it readable, or name another file with --config FILE"}
	}
	return string(data), nil
}

// decode parses the text of a configuration. It accepts unknown keys.
func (l *Loader) decode(path, text string) (*Config, error) {
	home, err := l.Home()
	if err != nil {
		return nil, err
	}
	c := &Config{Path: path, text: text, File: defaults(), home: home}
	if c.meta, err = toml.Decode(text, &c.File); err != nil {
		return nil, c.decodeError(err)
	}
	return c, nil
}

// Has reports whether the file sets a key such as "turn.timeout".
func (c *Config) Has(key string) bool {
	if has, ok := c.hasInFallback(key); ok {
		return has
	}
	return c.meta.IsDefined(splitKey(key)...)
}

// Loader reads configurations and wires agents for one process.
type Loader struct {
	Environ    []string                        // of the process, like os.Environ
	Account    func() (account.Account, error) // of the user
	Executable func() (string, error)          // absolute path of this program
	Version    string                          // of this program
	Now        func() time.Time
	Secrets    *secret.Known // learns each secret that is read

	Explain func(error) (hint, kind string, exit int) // the report of a command that fails with this error; nil for no hints
}

// Load reads the configuration in path and wires its agent. An error about the file is an *Error.
func (l *Loader) Load(path string) (*cycle.Agent, error) {
	c, err := l.Read(path)
	if err != nil {
		return nil, err
	}
	a, errs := l.Wire(c)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return a, nil
}

// Home returns the home directory of the user.
func (l *Loader) Home() (string, error) {
	u, err := l.Account()
	if err != nil {
		return "", terminal.Usagef("set HOME to your home directory", "%v", err)
	}
	return u.Home, nil
}

// HomeNote returns a note about the home directory in use if HOME names another one, or "".
func (l *Loader) HomeNote() string {
	home, err := l.Home()
	variable := l.Env("HOME")
	if err != nil || variable == "" || filepath.Clean(variable) == filepath.Clean(home) {
		return ""
	}
	return fmt.Sprintf("HOME is %s, but passwd says %s: ~ means %[2]s, as in cron jobs", variable, home)
}

// Env returns the value of an environment variable, or "".
func (l *Loader) Env(key string) string {
	value := ""
	for _, kv := range l.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key {
			value = v
		}
	}
	return value
}
