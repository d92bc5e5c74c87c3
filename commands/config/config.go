package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/BurntSushi/toml"
)

// Config is an agent.toml that has been read.
type Config struct {
	Path string // absolute
	File File

	text string
	meta toml.MetaData
	home string // of the user, for "~"
}

// Read reads an agent.toml. It checks the syntax, the names of the keys and the
// types of the values. What the values mean is checked where they are wired.
func (l *Loader) Read(path string) (*Config, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return l.Parse(path, text)
}

// Parse is Read for a text that stands, or is to stand, in the file path.
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

// ReadLoosely is Read, but unknown keys pass, so that doctor can go on with the
// rest.
func (l *Loader) ReadLoosely(path string) (*Config, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return l.decode(path, text)
}

func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &Error{Path: path, Text: "not found", Advice: "`agentstateloop init` makes one"}
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the path stands before it
	}
	if err != nil {
		return "", &Error{Path: path, Text: fmt.Sprintf("cannot be read: %v", err), Advice: "it must be a file of yours; name another with --config FILE"}
	}
	return string(data), nil
}

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

// Has reports whether the file sets a key, which is written with dots.
func (c *Config) Has(key string) bool { return c.meta.IsDefined(strings.Split(key, ".")...) }
