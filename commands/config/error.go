package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
)

// Error is an error in the configuration, with its position.
type Error struct {
	Path   string
	Line   int    // 0 if the error is not on a single line
	Key    string // such as "turn.timeout"; "" for the file as a whole
	Text   string // continues a sentence that begins with the key
	Advice string // what to do next; may be empty
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Key != "" {
		b.WriteString(": " + e.Key)
	}
	b.WriteString(": " + e.Text)
	return b.String()
}

// Hint returns what to do next, or "".
func (e *Error) Hint() string { return e.Advice }

// At returns an error about the value of key, with a hint that may be empty.
func (c *Config) At(key toml.Key, hint, format string, args ...any) error {
	key, line := c.placed(key)
	if line == 0 {
		line = c.lineOf(key)
	}
	return &Error{Path: c.Path, Line: line, Key: key.String(), Text: fmt.Sprintf(format, args...), Advice: hint}
}

// Wrong returns an error about a key such as "turn.timeout", without a hint.
func (c *Config) Wrong(key, format string, args ...any) error {
	return c.At(dotted(key), "", format, args...)
}

// Missing returns an error about a key such as "turn.timeout" that must be set.
func (c *Config) Missing(key, hint string) error {
	return c.At(dotted(key), hint, "is missing")
}

// dotted splits a text such as "turn.timeout" into a key.
func dotted(key string) toml.Key { return strings.Split(key, ".") }

// lineOf returns the line of the first statement that sets key, or 0. It asks the
// parser where each statement ends, because a string can look like a statement.
func (c *Config) lineOf(key toml.Key) int {
	prefix, statement := "", 1
	for i, line := range strings.SplitAfter(c.text, "\n") {
		prefix += line
		var any map[string]any
		meta, err := toml.Decode(prefix, &any)
		if err != nil {
			continue // in the middle of a statement
		}
		inArray := func(k toml.Key) bool { return slices.Equal(k, key) } // IsDefined does not look into arrays
		if meta.IsDefined(key...) || slices.ContainsFunc(meta.Keys(), inArray) {
			return statement
		}
		statement = i + 2
	}
	return 0
}

// Patterns for the library's errors about a value of the wrong type. Such an error has the line and
// the key only in its text.
var (
	wrongValue = lazy.NewRegexp(`^toml: (?:line (\d+) )?\(last key (".*")\): (.*)$`)
	wrongType  = lazy.NewRegexp(`^incompatible types: TOML value has type (\S+); destination has type (.+)$`)
	noTable    = lazy.NewRegexp(`^type mismatch for .*: expected table but found (\S+)$`)
)

// decodeError converts an error of the TOML library to an Error.
func (c *Config) decodeError(err error) error {
	if e, ok := errors.AsType[toml.ParseError](err); ok {
		return &Error{Path: c.Path, Line: e.Position.Line, Key: plain.Line(e.LastKey), Text: plain.Line(e.Message)}
	}
	found := wrongValue.Get().FindStringSubmatch(err.Error())
	if found == nil {
		return &Error{Path: c.Path, Text: plain.Line(err.Error())}
	}
	e := &Error{Path: c.Path, Text: plain.Line(found[3])}
	e.Line, _ = strconv.Atoi(found[1])
	if key, err := strconv.Unquote(found[2]); err == nil {
		e.Key = plain.Line(key)
	}
	if types := wrongType.Get().FindStringSubmatch(found[3]); types != nil {
		e.Text = fmt.Sprintf("must be %s, not %s", typeName(types[2]), typeName(types[1]))
	} else if types := noTable.Get().FindStringSubmatch(found[3]); types != nil {
		e.Text = fmt.Sprintf("must be a table, not %s", typeName(types[1]))
	}
	return e
}

// typeName returns the name of a type to show to a user. goType is the type's name in the library's
// errors.
func typeName(goType string) string {
	switch {
	case strings.HasPrefix(goType, "map"):
		return "a table"
	case strings.HasPrefix(goType, "[]map"):
		return "an array of tables"
	case strings.HasPrefix(goType, "[]"), goType == "slice":
		return "an array"
	case strings.HasPrefix(goType, "int"):
		return "an integer"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	case strings.HasPrefix(goType, "bool"):
		return "true or false"
	case strings.HasPrefix(goType, "time"):
		return "a time"
	}
	return "a string"
}
