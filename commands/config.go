package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"

	"github.com/BurntSushi/toml"
)

// config is an agent.toml that has been read.
type config struct {
	path string // absolute
	text string
	file configFile
	meta toml.MetaData
	home string // of the user, for "~"
}

// configError says what is wrong in the configuration, and where: exit 2.
type configError struct {
	path string
	line int    // 0: nowhere in particular
	key  string // "turn.timeout"; "": the file as a whole
	text string
	hint string
}

func (e *configError) Error() string {
	var b strings.Builder
	b.WriteString(e.path)
	if e.line > 0 {
		fmt.Fprintf(&b, ":%d", e.line)
	}
	if e.key != "" {
		b.WriteString(": " + e.key)
	}
	b.WriteString(": " + e.text)
	return b.String()
}

// Hint returns what to do about it, or "".
func (e *configError) Hint() string { return e.hint }

// findConfig gives the absolute path of the configuration (DESIGN 11): flag,
// $AGENTSTATELOOP_CONFIG, ./agent.toml, then the user's configuration folder.
// The first two must exist; of the others the first that does is taken.
func (p *program) findConfig(flag string) (string, error) {
	for _, path := range []string{flag, p.env("AGENTSTATELOOP_CONFIG")} {
		if path != "" {
			return filepath.Abs(path)
		}
	}
	const file = "agent.toml"
	places := []string{file}
	if dir := p.env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		places = append(places, filepath.Join(dir, name, file))
	} else if home, err := p.home(); err == nil {
		places = append(places, filepath.Join(home, ".config", name, file))
	}
	for _, path := range places {
		if _, err := os.Stat(path); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", terminal.Usagef("`agentstateloop init` makes one; or name yours with --config FILE",
		"no configuration: there is no %s", strings.Join(places, ", and no "))
}

// readConfig reads and checks the keys of an agent.toml: syntax, unknown keys
// and types. What the values mean is checked where they are wired.
func readConfig(path, home string) (*config, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &configError{path: path, text: "there is no such file", hint: "`agentstateloop init` makes one"}
	}
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the path stands before it
		}
		return nil, &configError{path: path, text: fmt.Sprintf("cannot be read: %v", err), hint: "it must be a file of yours; name another with --config FILE"}
	}
	return parseConfig(path, string(data), home)
}

// parseConfig is readConfig of a text that stands, or is to stand, in path.
func parseConfig(path, text, home string) (*config, error) {
	c := &config{path: path, text: text, file: defaults(), home: home}
	if err := c.checkKeys(); err != nil {
		return nil, err
	}
	var err error
	if c.meta, err = toml.Decode(c.text, &c.file); err != nil {
		return nil, c.undecodable(err)
	}
	return c, nil
}

// readLoosely reads an agent.toml without a look at keys that are not known, so
// that doctor can go on with the rest.
func readLoosely(path, home string) (*config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &config{path: path, text: string(data), file: defaults(), home: home}
	c.meta, err = toml.Decode(c.text, &c.file)
	return c, err
}

// checkKeys finds wrong syntax, keys that we do not know and values of another
// type than ours. The library lets the first pass and gives no line for the
// rest, so this looks for itself.
func (c *config) checkKeys() error {
	var any map[string]any
	meta, err := toml.Decode(c.text, &any)
	if e, ok := errors.AsType[toml.ParseError](err); ok {
		return &configError{path: c.path, line: e.Position.Line, key: plain.Line(e.LastKey), text: plain.Line(e.Message)}
	}
	if err != nil {
		return &configError{path: c.path, text: plain.Line(err.Error())}
	}
	known := knownKeys()
	for _, key := range meta.Keys() {
		want, ok := known[general(key, known)]
		if !ok {
			return c.unknownKey(key, known)
		}
		if have := meta.Type(key...); !slices.Contains(want.toml(), have) {
			return c.at(key, "", "%s is wanted here, and this is %s", want, article(strings.ToLower(have)))
		}
	}
	return nil
}

func (c *config) unknownKey(key toml.Key, known map[string]kind) error {
	last := len(key) - 1
	above := general(key[:last], known)
	var siblings []string
	for k := range known {
		if parent, leaf := splitKey(k); parent == above {
			siblings = append(siblings, leaf)
		}
	}
	what := "key"
	if last == 0 {
		what = "section"
	}
	hint := terminal.DidYouMean(key[last], siblings, "agent.toml.example has every key")
	return c.at(key, hint, "unknown %s", what)
}

// undecodable is for what only decoding finds: the elements of an array.
func (c *config) undecodable(err error) error {
	text := plain.Line(strings.TrimPrefix(err.Error(), "toml: "))
	line, keys := lineOf(c.text, func(prefix string, _ toml.MetaData) bool {
		var file configFile
		_, err := toml.Decode(prefix, &file)
		return err != nil
	})
	e := &configError{path: c.path, line: line, text: text}
	if len(keys) > 0 {
		e.key = keys[len(keys)-1].String()
		known := knownKeys()
		e.text = known[general(keys[len(keys)-1], known)].String() + " is wanted here"
	}
	return e
}

// at is an error about the value of key.
func (c *config) at(key toml.Key, hint, format string, args ...any) error {
	line, _ := lineOf(c.text, func(_ string, meta toml.MetaData) bool { return meta.IsDefined(key...) })
	return &configError{path: c.path, line: line, key: key.String(), text: fmt.Sprintf(format, args...), hint: hint}
}

// wrong is at for a key written with dots.
func (c *config) wrong(key, format string, args ...any) error {
	return c.at(strings.Split(key, "."), "", format, args...)
}

// has says whether the file sets a key.
func (c *config) has(key string) bool { return c.meta.IsDefined(strings.Split(key, ".")...) }

// lineOf returns the line of the first statement with which the file, read up
// to there, has what is sought, and the keys that this statement sets; 0 where
// it never has. The parser itself says where a statement ends, so that no
// syntax can mislead this.
func lineOf(text string, sought func(prefix string, meta toml.MetaData) bool) (int, []toml.Key) {
	prefix, statement := "", 1
	var before int
	for i, line := range strings.SplitAfter(text, "\n") {
		prefix += line
		var any map[string]any
		meta, err := toml.Decode(prefix, &any)
		if err != nil {
			continue // in the middle of a statement
		}
		if sought(prefix, meta) {
			return statement, meta.Keys()[min(before, len(meta.Keys())):]
		}
		statement, before = i+2, len(meta.Keys())
	}
	return 0, nil
}

// kind is the type of a key's value.
type kind string

const (
	aString         kind = "a string"
	aSpan           kind = `a length of time such as "30m"`
	aWhole          kind = "a whole number"
	aNumber         kind = "a number"
	aBoolean        kind = "true or false"
	anArray         kind = "an array of strings"
	aTable          kind = "a table"
	aTableOfStrings kind = "a table of strings"
	aTableOfTables  kind = "a table of tables"
)

func (k kind) String() string { return string(k) }

// toml lists the library's names for the type; a number may be a whole one.
func (k kind) toml() []string {
	switch k {
	case aString, aSpan:
		return []string{"String"}
	case aWhole:
		return []string{"Integer"}
	case aNumber:
		return []string{"Float", "Integer"}
	case aBoolean:
		return []string{"Bool"}
	case anArray:
		return []string{"Array"}
	default:
		return []string{"Hash"}
	}
}

// article puts the library's name of a type into a sentence.
func article(tomlType string) string {
	switch tomlType {
	case "integer", "array", "arrayhash":
		return "an " + tomlType
	case "hash":
		return "a table"
	}
	return "a " + tomlType
}

// anyName stands in a known key for a name that the user chooses, such as that
// of a variable in turn.env. A name spelled like it would stand in quotes.
const anyName = "*"

// knownKeys are the keys of a configFile, dotted, with their types.
func knownKeys() map[string]kind {
	keys := map[string]kind{}
	addKeys(keys, "", reflect.TypeFor[configFile]())
	return keys
}

func addKeys(keys map[string]kind, prefix string, t reflect.Type) {
	for f := range t.Fields() {
		addKey(keys, prefix+f.Tag.Get("toml"), f.Type)
	}
}

func addKey(keys map[string]kind, key string, t reflect.Type) {
	keys[key] = kindOf(t)
	switch keys[key] {
	case aTable:
		addKeys(keys, key+".", t)
	case aTableOfStrings, aTableOfTables:
		addKey(keys, key+"."+anyName, t.Elem())
	}
}

// general is a key as knownKeys has it: names that are the user's are anyName.
func general(key toml.Key, known map[string]kind) string {
	var path string
	for i, name := range key {
		if name = (toml.Key{name}).String(); i > 0 {
			if _, chosen := known[path+"."+anyName]; chosen {
				name = anyName
			}
			name = "." + name
		}
		path += name
	}
	return path
}

func kindOf(t reflect.Type) kind {
	if t == reflect.TypeFor[span]() {
		return aSpan
	}
	switch t.Kind() {
	case reflect.Struct:
		return aTable
	case reflect.Map:
		if t.Elem().Kind() == reflect.Struct {
			return aTableOfTables
		}
		return aTableOfStrings
	case reflect.Slice:
		return anArray
	case reflect.Int:
		return aWhole
	case reflect.Float64:
		return aNumber
	case reflect.Bool:
		return aBoolean
	default:
		return aString
	}
}

func splitKey(key string) (parent, leaf string) {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return "", key
	}
	return key[:i], key[i+1:]
}
