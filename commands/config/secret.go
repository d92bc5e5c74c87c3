package config

import (
	"context"
	"slices"
	"strings"

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

// namesSecret matches the names of environment variables that hold a secret.
var namesSecret = lazy.NewRegexp(`(?i)(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSPHRASE)$`)

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
