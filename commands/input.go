package commands

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/account"
	"agentstateloop/internal/lazy"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// maxText limits a text from standard input, in bytes.
const maxText = 4 << 20

// text returns an argument, or standard input for "-".
func (c *call) text(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := io.ReadAll(io.LimitReader(c.stdin, maxText+1))
	if err != nil {
		return "", fmt.Errorf("read message: %w", err)
	}
	if len(data) > maxText {
		return "", fmt.Errorf("read message: exceeds %d bytes", maxText)
	}
	return string(data), nil
}

// beginning is like text, for a caller that does not know the length of its text. It truncates a
// long standard input, but reads it to the end.
func (c *call) beginning(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := io.ReadAll(io.LimitReader(c.stdin, maxText))
	if err == nil {
		_, err = io.Copy(io.Discard, c.stdin)
	}
	if err != nil {
		return "", fmt.Errorf("read message: %w", err)
	}
	return string(data), nil
}

// message returns the text of argument n, which must not be blank.
func (c *call) message(n int) (string, error) {
	text, err := c.text(c.arg(n))
	if err == nil && strings.TrimSpace(text) == "" {
		err = terminal.Usagef("see "+c.helpName()+" --help", "the message is empty")
	}
	return text, err
}

// handleAndText parses the arguments HANDLE and TEXT.
func (c *call) handleAndText() (to, text string, err error) {
	if err := c.arguments(2, 2); err != nil {
		return "", "", err
	}
	if to, err = parseHandle(c.arg(0)); err != nil {
		return "", "", err
	}
	text, err = c.message(1)
	return to, text, err
}

// parseHandle parses a handle, with or without its "@".
func parseHandle(text string) (string, error) {
	handle := strings.TrimPrefix(text, "@")
	if !state.ValidHandle(handle) {
		return "", terminal.Usagef("use a-z, 0-9 and -, at most 32 characters, with or without the @", "%q is not a valid handle", text)
	}
	return handle, nil
}

// userName returns the name of the current user, for the history.
func userName() string {
	u, _ := account.Current()
	return cmp.Or(u.Name, "operator")
}

// requestedFieldForm is NAME, NAME:TYPE or NAME:TYPE=DESCRIPTION. A ? after the name or the type marks an
// optional field, a ! a required one.
var requestedFieldForm = lazy.NewRegexp(`(?s)^([^:=?!]+)([?!]?)(?::([^:=?!]*)([?!]?))?(?:=(.*))?$`)

// requestedFields parses the result fields that --field asks for.
func requestedFields(given []string) (mesh.ResultFields, error) {
	var fields mesh.ResultFields
	for _, word := range given {
		if strings.HasPrefix(strings.TrimSpace(word), "{") {
			var list mesh.ResultFields
			if err := json.Unmarshal([]byte("["+word+"]"), &list); err != nil || len(list) != 1 || hasUnknownMember(word) {
				return nil, terminal.Usagef(`for example --field '{"name": "tests", "type": "integer", "required": true}'`, "--field %q is not a JSON object that describes a field", word)
			}
			fields = append(fields, list[0])
			continue
		}
		parts := requestedFieldForm.Get().FindStringSubmatch(word)
		if parts == nil {
			return nil, terminal.Usagef("for example --field 'tests?:integer=how many passed'", "--field %q is not NAME, NAME:TYPE or NAME:TYPE=DESCRIPTION", word)
		}
		fields = append(fields, state.ResultField{
			Name: parts[1], Type: parts[3], Description: parts[5], Required: parts[2] != "?" && parts[4] != "?",
		})
	}
	if err := state.CheckResultFields(fields); err != nil {
		return nil, terminal.Usagef("for example --field 'tests?:integer=how many passed'", "--field: %v", err)
	}
	return fields, nil
}

// hasUnknownMember reports whether an object that describes a field has an unknown member: "requierd"
// would silently make a field optional.
func hasUnknownMember(object string) bool {
	dec := json.NewDecoder(strings.NewReader(object))
	dec.DisallowUnknownFields()
	return dec.Decode(new(state.ResultField)) != nil
}

// submittedFields parses the results of --field: NAME=VALUE, or NAME:=JSON.
func submittedFields(given []string) ([]cycle.Field, error) {
	var fields []cycle.Field
	for _, word := range given {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, terminal.Usagef("for example --field verdict=green, or --field tests:=412", "--field %q is not NAME=VALUE or NAME:=JSON", word)
		}
		f := cycle.Field{Name: name, Text: value}
		if bare, isJSON := strings.CutSuffix(name, ":"); isJSON {
			if !json.Valid([]byte(value)) {
				return nil, terminal.Usagef("for example --field tests:=412", "--field %q: the value after := is not valid JSON", word)
			}
			f = cycle.Field{Name: bare, Value: json.RawMessage(value)}
		}
		fields = append(fields, f)
	}
	return fields, nil
}
