package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"agentstateloop/mail"

	"github.com/BurntSushi/toml"
)

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
		return "", &Error{Path: path, Text: "is a folder", Advice: "name the file in it: --config " + filepath.Join(path, "agent.toml")}
	}
	if err != nil {
		return "", &Error{Path: path, Text: fmt.Sprintf("cannot be read: %v", err), Advice: "make it readable for you, or name another file with --config FILE"}
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
	if has, ok := c.hasOfFallback(key); ok {
		return has
	}
	return c.meta.IsDefined(dotted(key)...)
}
