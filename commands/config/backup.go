package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/order"

	"github.com/BurntSushi/toml"
)

// Named is a file or folder that a configuration names.
type Named struct {
	Key      string // such as "turn.prompts"
	Path     string // absolute
	Relative bool   // the file has a path that is relative to its folder
}

// NamedFiles returns the files other than secrets that the configuration names: templates, prompts,
// schemas, certificates, and programs with a path.
func (c *Config) NamedFiles() []Named {
	var all []Named
	add := func(n Named) {
		if !slices.ContainsFunc(all, func(other Named) bool { return other.Path == n.Path }) {
			all = append(all, n)
		}
	}
	addFile := func(key, file string) {
		if file != "" {
			add(c.named(key, file))
		}
	}
	addProgram := func(key string, command []string, dir string) {
		switch {
		case len(command) == 0 || !strings.Contains(command[0], "/"):
		case strings.HasPrefix(command[0], "~/"), filepath.IsAbs(command[0]):
			addFile(key, command[0])
		default:
			addFile(key, filepath.Join(dir, command[0]))
		}
	}
	t := c.File.Turn
	addFile("turn.prompts", t.Prompts)
	addProgram("turn.command", t.Command, t.Workdir)
	addProgram("turn.low_command", t.LowCommand, t.Workdir)
	addProgram("turn.summary", t.Summary, t.Workdir)
	for _, f := range t.Fallback {
		addProgram("turn.fallback.command", f.Command, t.Workdir)
	}
	for _, p := range c.File.Prompts {
		addFile("prompt.file", p.File)
		addProgram("prompt.if", p.If, "")
	}
	for _, path := range c.ownPrograms() {
		addFile("a command", path)
	}
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		addProgram("tools."+name+".mcp.command", c.File.Tools[name].MCP.Command, "")
	}
	m := c.File.Mail
	for key, file := range map[string]string{
		"mail.imap.ca_file": m.IMAP.CAFile, "mail.smtp.ca_file": m.SMTP.CAFile, "mesh.ca_file": c.File.Mesh.CAFile,
		"mail.imap.oauth2.ca_file": m.IMAP.OAuth2.CAFile, "mail.smtp.oauth2.ca_file": m.SMTP.OAuth2.CAFile,
	} {
		addFile(key, file)
	}
	order.Stable(all, func(a, b Named) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

func (c *Config) named(key, file string) Named {
	return Named{key, c.Resolve(file), !filepath.IsAbs(file) && file != "~" && !strings.HasPrefix(file, "~/")}
}

// StateDir returns the agent's state directory.
func (c *Config) StateDir() Named {
	if dir := c.File.Agent.StateDir; dir != "" {
		return c.named("agent.state_dir", dir)
	}
	return Named{Key: "agent.state_dir", Path: filepath.Join(c.stateFolder(), c.File.Agent.Handle)}
}

// Text returns the text of the file.
func (c *Config) Text() string { return c.text }

// NotInBackup stands in agent.toml for a value that a backup without secrets lacks. A configuration
// with it is refused, so that no agent works without the value.
const NotInBackup = "NOT IN THE BACKUP"

// plainVariables are environment variables whose values are not secrets.
var plainVariables = []string{"PATH", "LANG", "LC_ALL", "TZ", "HOME", "TERM", "SHELL"}

// WithoutValues returns the text of the file in which NotInBackup replaces each value that may be a
// secret: the environment of programs, and the address of the heartbeat. It also returns the keys of
// these values.
func (c *Config) WithoutValues() (text string, keys []string, err error) {
	values := c.secretValues()
	text, err = editValues(c.text, func(key, value string) (string, bool) {
		if values[key] == "" || values[key] != value {
			return "", false
		}
		keys = append(keys, key)
		return NotInBackup, true
	}, slices.Collect(maps.Values(values)))
	if err != nil {
		return "", nil, err
	}
	for key := range values {
		if !slices.Contains(keys, key) {
			return "", nil, terminal.WithHint(fmt.Errorf("%s: the value of %s cannot be left out", c.Path, key), "write it as a string on one line, or use --secrets")
		}
	}
	slices.Sort(keys)
	return text, keys, nil
}

// secretValues returns the values of the file that may be secrets, by their keys.
func (c *Config) secretValues() map[string]string {
	all := map[string]string{}
	add := func(key string, env map[string]string) {
		for name, value := range env {
			if value != "" && value != NotInBackup && !slices.Contains(plainVariables, name) {
				all[key+"."+name] = value
			}
		}
	}
	add("turn.env", c.File.Turn.Env)
	for i, f := range c.File.Turn.Fallback {
		add("turn.fallback."+strconv.Itoa(i)+".env", f.Env)
	}
	for name, t := range c.File.Tools {
		add("tools."+name+".mcp.env", t.MCP.Env)
	}
	if address := c.File.Schedule.Heartbeat; address != "" {
		all["schedule.heartbeat"] = address
	}
	return all
}

// checkInBackup refuses the value that a backup lacked.
func (c *Config) checkInBackup(key, value string) error {
	if value != NotInBackup {
		return nil
	}
	hint := fmt.Sprintf("set it again, then run `%s init`; a backup has it only with --secrets", terminal.Program)
	return c.At(splitKey(key), hint, "this value was not in the backup")
}

// MovedHome returns the text with each value below the home folder was changed to the same place
// below is, and how many values it changed.
func MovedHome(text, was, is string) (changed string, n int, err error) {
	move := func(value string) (string, bool) {
		if value == was {
			return is, true
		}
		rest, below := strings.CutPrefix(value, was+"/")
		return filepath.Join(is, rest), below
	}
	var file map[string]any
	if _, err := toml.Decode(text, &file); err != nil {
		return "", 0, err
	}
	below := slices.DeleteFunc(stringsOf(file), func(s string) bool { _, ok := move(s); return !ok })
	changed, err = editValues(text, func(_, value string) (string, bool) { n++; return move(value) }, below)
	return changed, n, err
}

// WithStateDir returns the text with another state_dir.
func WithStateDir(text, dir string) (string, error) {
	const key = "agent.state_dir"
	set := func(string, string) (string, bool) { return dir, true }
	var file struct {
		Agent struct {
			StateDir string `toml:"state_dir"`
		} `toml:"agent"`
	}
	if _, err := toml.Decode(text, &file); err != nil {
		return "", err
	}
	if was := file.Agent.StateDir; was != "" {
		return editValues(text, func(k, v string) (string, bool) {
			if k != key {
				return "", false
			}
			return set(k, v)
		}, []string{was})
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(line)
		if head, _, _ := strings.Cut(line, "#"); strings.TrimSpace(head) == "[agent]" {
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\n")
			}
			out.WriteString("state_dir = " + TOML(dir) + "\n")
		}
	}
	if _, err := toml.Decode(out.String(), &file); err != nil || file.Agent.StateDir != dir {
		return "", terminal.Usagef("restore without --state-dir", "state_dir cannot be set in a configuration without a line [agent]")
	}
	return out.String(), nil
}

// TOML returns a string, a number or a boolean as in a TOML file. A JSON string is also a TOML string,
// except for the one control character that JSON does not escape.
func TOML(value any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // these values can be encoded
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007F`)
}

// span is the place of a string in a text.
type span struct{ start, end int }

// stringSpans returns the places of the strings in a TOML text, keys in quotes too, with their
// quotes.
func stringSpans(text string) []span {
	var all []span
	for i := 0; i < len(text); {
		switch {
		case text[i] == '#':
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				i += n
				continue
			}
			return all
		case text[i] == '"' || text[i] == '\'':
			end := stringEnd(text, i)
			all = append(all, span{i, end})
			i = end
		default:
			i++
		}
	}
	return all
}

// stringEnd returns the end of the string that begins at i.
func stringEnd(text string, i int) int {
	quote := text[i : i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[i:], triple) {
		quote = triple
	}
	for j := i + len(quote); j < len(text); j++ {
		switch {
		case text[j] == '\\' && quote[0] == '"':
			j++
		case strings.HasPrefix(text[j:], quote):
			j += len(quote)
			for len(quote) == 3 && j < len(text) && text[j] == quote[0] {
				j++ // up to two quotes may precede the end
			}
			return j
		}
	}
	return len(text)
}

// valueOf decodes a string with its quotes.
func valueOf(token string) (string, bool) {
	var v struct {
		V string `toml:"v"`
	}
	_, err := toml.Decode("v = "+token, &v)
	return v.V, err == nil
}

// editValues replaces values in a TOML text, and keeps everything else, comments too. It looks only
// at strings that are in candidates. For each it calls change with the key, in which the elements of
// an array have their index, and the value. To find the key of a string, it replaces the string by a
// mark and lets the parser find the mark: so no second parser has to agree with the first.
func editValues(text string, change func(key, value string) (string, bool), candidates []string) (string, error) {
	const mark = "agentstateloop:mark:5b0c1f"
	for _, s := range slices.Backward(stringSpans(text)) {
		value, ok := valueOf(text[s.start:s.end])
		if !ok || !slices.Contains(candidates, value) {
			continue
		}
		var file map[string]any
		if _, err := toml.Decode(text[:s.start]+TOML(mark)+text[s.end:], &file); err != nil {
			continue // a key
		}
		key, isValue := keyOf(file, mark)
		if !isValue {
			continue
		}
		if to, ok := change(key, value); ok {
			text = text[:s.start] + TOML(to) + text[s.end:]
		}
	}
	var file map[string]any
	_, err := toml.Decode(text, &file)
	return text, err
}

// keyOf returns the key of a value in a decoded file.
func keyOf(v any, value string) (key string, found bool) {
	join := func(first string, v any) (string, bool) {
		rest, ok := keyOf(v, value)
		return strings.TrimSuffix(first+"."+rest, "."), ok
	}
	switch v := v.(type) {
	case string:
		return "", v == value
	case map[string]any:
		for name, inner := range v {
			if key, ok := join(name, inner); ok {
				return key, true
			}
		}
	case []map[string]any:
		for i, inner := range v {
			if key, ok := join(strconv.Itoa(i), inner); ok {
				return key, true
			}
		}
	case []any:
		for i, inner := range v {
			if key, ok := join(strconv.Itoa(i), inner); ok {
				return key, true
			}
		}
	}
	return "", false
}

// MissingPaths returns the absolute paths in the text of a configuration that do not exist on this
// machine.
func MissingPaths(text string) []string {
	var file map[string]any
	if _, err := toml.Decode(text, &file); err != nil {
		return nil
	}
	if mesh, ok := file["mesh"].(map[string]any); ok {
		delete(mesh, "paths") // of its server
	}
	var missing []string
	for _, s := range stringsOf(file) {
		if !filepath.IsAbs(s) || strings.ContainsAny(s, "\n :") {
			continue
		}
		if _, err := os.Lstat(s); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, s)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// stringsOf returns the strings in a decoded value.
func stringsOf(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case map[string]any:
		for _, inner := range v {
			all = append(all, stringsOf(inner)...)
		}
	case []map[string]any:
		for _, inner := range v {
			all = append(all, stringsOf(inner)...)
		}
	case []any:
		for _, inner := range v {
			all = append(all, stringsOf(inner)...)
		}
	}
	return all
}
