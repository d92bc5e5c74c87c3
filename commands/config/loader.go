package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
)

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
	return fmt.Sprintf("HOME is %s, but passwd says %s: ~ is %[2]s, as in cron jobs", variable, home)
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
