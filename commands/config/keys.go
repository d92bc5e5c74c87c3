package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"

	"github.com/BurntSushi/toml"
)

// checkKeys rejects keys that are not in File. The library ignores such keys, and accepts keys in
// another case.
func (c *Config) checkKeys() error {
	if c.allKeysKnown() {
		return nil
	}
	for _, key := range c.meta.Keys() {
		for last := range key {
			siblings, ours := keysOf(key[:last])
			if !ours || slices.Contains(siblings, key[last]) {
				continue
			}
			const all = "see agent.toml.example for all keys"
			switch {
			case last > 0:
				return c.At(key[:last+1], terminal.DidYouMean(key[last], siblings, all), "unknown key")
			case c.meta.Type(key[0]) == "Hash" || c.meta.Type(key[0]) == "ArrayHash":
				return c.At(key[:1], terminal.DidYouMean(key[0], siblings, all), "unknown section")
			}
			return c.At(key[:1], inSection(key[0], siblings, all), "unknown key outside any section")
		}
	}
	return nil
}

// inSection returns the hint for a key above all sections: the section that it may belong in, or
// other.
func inSection(key string, sections []string, other string) string {
	var all []string
	section := map[string]string{} // the first section of each key
	for _, s := range sections {
		keys, _ := keysOf(toml.Key{s})
		for _, k := range keys {
			if section[k] == "" {
				all, section[k] = append(all, k), s
			}
		}
	}
	if near := terminal.Nearest(key, all); near != "" {
		return "did you mean " + near + " in [" + section[near] + "]?"
	}
	return other
}

// allKeysKnown is a fast path that spares checkKeys its work on each start. If it returns false,
// there may still be no unknown key. Our keys are in lower case. If all keys of the file are too,
// the library has not accepted one in another case, and Undecoded lists all keys that are not in
// File.
func (c *Config) allKeysKnown() bool {
	for _, key := range c.meta.Keys() {
		for _, part := range key {
			if strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
				return false
			}
		}
	}
	return len(c.meta.Undecoded()) == 0
}

// keysOf returns the valid keys of a table in the file. ours is false if the user chooses the keys,
// as in [turn.env], or if table is not a table.
func keysOf(table toml.Key) (keys []string, ours bool) {
	t := reflect.TypeFor[File]()
	for _, name := range table {
		t = elementOf(t)
		switch t.Kind() {
		case reflect.Map:
			t = t.Elem()
		case reflect.Struct:
			field, ok := fieldOf(t, name)
			if !ok {
				return nil, false // the table itself is unknown
			}
			t = field.Type
		}
	}
	t = elementOf(t)
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.Tag.Get("toml"))
	}
	return keys, true
}

// elementOf returns the table type of an array of tables. It returns other types unchanged.
func elementOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		return t.Elem()
	}
	return t
}

// fieldsOf returns the fields of a section, including those of embedded sections.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous })
}

// fieldOf returns the field of a section for a key.
func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for _, f := range fieldsOf(t) {
		if f.Tag.Get("toml") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

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
	key, line := c.position(key)
	if line == 0 {
		line = c.lineOf(key)
	}
	return &Error{Path: c.Path, Line: line, Key: key.String(), Text: fmt.Sprintf(format, args...), Advice: hint}
}

// Wrong returns an error about a key such as "turn.timeout", without a hint.
func (c *Config) Wrong(key, format string, args ...any) error {
	return c.At(splitKey(key), "", format, args...)
}

// Missing returns an error about a key such as "turn.timeout" that must be set.
func (c *Config) Missing(key, hint string) error {
	return c.At(splitKey(key), hint, "is missing")
}

// splitKey splits a text such as "turn.timeout" into a key.
func splitKey(key string) toml.Key { return strings.Split(key, ".") }

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
	notATable  = lazy.NewRegexp(`^type mismatch for .*: expected table but found (\S+)$`)
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
	} else if types := notATable.Get().FindStringSubmatch(found[3]); types != nil {
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
