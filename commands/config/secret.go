package config

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// Source says where a secret is found (docs/design.md, "Credentials"): in a
// file, in an environment variable, or in the first line that a command prints.
type Source struct {
	File    string
	Env     string
	Command []string
	Login   bool // `login` writes the file
}

// namesSecret recognises the variables of an agent that hold a secret.
var namesSecret = regexp.MustCompile(`(?i)(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSPHRASE)$`)

// Ways counts how many of the three are set.
func (s Source) Ways() int {
	n := 0
	for _, set := range []bool{s.File != "", s.Env != "", len(s.Command) > 0} {
		if set {
			n++
		}
	}
	return n
}

// Equal reports whether two secrets are found at the same place.
func (s Source) Equal(t Source) bool {
	return s.File == t.File && s.Env == t.Env && slices.Equal(s.Command, t.Command)
}

// Secret returns a function that reads a secret again at each call, and from
// then on keeps it out of what this process prints and records. Its errors name
// the place and never hold any part of what was found there.
func (l *Loader) Secret(c *Config, s Source) func(context.Context) (string, error) {
	read := l.reader(c, s)
	if s.Env != "" {
		l.Secrets.Learn(s.Env, l.Env(s.Env)) // every process we start can see it, and print it
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

// UnreadError means that a secret could not be read: no server has refused it.
type UnreadError struct{ error }

func (e *UnreadError) Unwrap() error { return e.error }

// SecretFile is Secret for a path of the command line.
func (l *Loader) SecretFile(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		value, err := readSecretFile(path)
		l.Secrets.Learn(path, value)
		return value, err
	}
}
