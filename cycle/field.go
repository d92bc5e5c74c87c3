package cycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// Field is one named result that an agent submits.
type Field struct {
	Name  string
	Value json.RawMessage // nil: the value is Text
	Text  string          // the value on a command line, parsed by the type that the message asks for
}

// results returns the fields with the types that their message asks for. It is an error if a
// value has the wrong type or a required field is missing (docs/design.md, "The contract
// between agents").
func results(asked mesh.ResultFields, given []Field) (mesh.Fields, error) {
	var fields mesh.Fields
	for _, g := range given {
		f := mesh.Field{Name: g.Name, Value: g.Value}
		kind, _ := typeOf(asked, g.Name)
		if f.Value == nil {
			f.Value = valueOf(g.Text, kind)
		}
		if !json.Valid(f.Value) || !hasType(f.Value, kind) {
			return nil, fmt.Errorf("the result field %s must be %s, and %s is not", g.Name, typeWord(kind), plain.Brief(string(f.Value)))
		}
		fields = append(fields, f)
	}
	if missing := missingFields(asked, fields); len(missing) > 0 {
		return nil, fmt.Errorf("the message asks for result fields that are missing: %s: add --field %s=…", strings.Join(missing, ", "), missing[0])
	}
	return fields, fields.Check()
}

// valueOf returns the JSON value of a text. If the type is known and not a string, the text
// itself is JSON.
func valueOf(text, kind string) json.RawMessage {
	if kind != "" && kind != state.TypeString {
		return json.RawMessage(text)
	}
	data, _ := json.Marshal(text) // a string cannot fail
	return data
}

// typeWord names a type for an error message.
func typeWord(kind string) string {
	switch kind {
	case state.TypeString:
		return "a string"
	case state.TypeNumber:
		return "a number"
	case state.TypeInteger:
		return "an integer"
	case state.TypeBoolean:
		return "true or false"
	case state.TypeArray:
		return "an array of JSON"
	case state.TypeObject:
		return "an object of JSON"
	}
	return "valid JSON"
}

// hasType reports whether a JSON value has the type.
func hasType(value json.RawMessage, kind string) bool {
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return false
	}
	switch kind {
	case state.TypeString:
		return value[0] == '"'
	case state.TypeNumber:
		return isNumber(value)
	case state.TypeInteger: // JSON Schema: 1.0 is an integer, and 1e3 too
		return isNumber(value) && isWhole(string(value))
	case state.TypeBoolean:
		return value[0] == 't' || value[0] == 'f'
	case state.TypeArray:
		return value[0] == '['
	case state.TypeObject:
		return value[0] == '{'
	}
	return true
}

func isNumber(value []byte) bool { return value[0] == '-' || '0' <= value[0] && value[0] <= '9' }

func isWhole(number string) bool {
	if !strings.ContainsAny(number, ".eE") {
		return true
	}
	f, err := strconv.ParseFloat(number, 64)
	return err == nil && f == math.Trunc(f)
}

// missingFields returns the names of the required fields that are missing.
func missingFields(asked mesh.ResultFields, fields mesh.Fields) []string {
	var missing []string
	for _, r := range asked {
		if r.Required && !slices.ContainsFunc(fields, func(f mesh.Field) bool { return f.Name == r.Name }) {
			missing = append(missing, r.Name)
		}
	}
	return missing
}

// withFields returns a text for people: one field per line, then the text.
func withFields(fields mesh.Fields, text string) string {
	var b strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, spoken(f.Value))
	}
	if text != "" && b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String() + text
}

// spoken returns a value for people: a string without its quotes.
func spoken(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && value[0] == '"' {
		return text
	}
	return string(value)
}
