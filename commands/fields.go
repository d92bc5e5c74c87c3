package commands

import (
	"encoding/json"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/lazy"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// askedForm is NAME, NAME:TYPE or NAME:TYPE=DESCRIPTION. A ? after the name or the type marks an
// optional field, a ! a required one.
var askedForm = lazy.NewRegexp(`(?s)^([^:=?!]+)([?!]?)(?::([^:=?!]*)([?!]?))?(?:=(.*))?$`)

// askedFields returns the result fields that --field asks for.
func askedFields(c *cli.Context) (mesh.ResultFields, error) {
	var fields mesh.ResultFields
	for _, word := range wordsOf(c, "field") {
		if strings.HasPrefix(strings.TrimSpace(word), "{") {
			var list mesh.ResultFields
			if err := json.Unmarshal([]byte("["+word+"]"), &list); err != nil || len(list) != 1 || misspelt(word) {
				return nil, terminal.Usagef(`for example --field '{"name": "tests", "type": "integer", "required": true}'`, "--field %q is not an object of JSON that describes a field", word)
			}
			fields = append(fields, list[0])
			continue
		}
		parts := askedForm.Get().FindStringSubmatch(word)
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

// misspelt reports whether an object that describes a field has an unknown member: "requierd"
// would silently make a field optional.
func misspelt(object string) bool {
	dec := json.NewDecoder(strings.NewReader(object))
	dec.DisallowUnknownFields()
	return dec.Decode(new(state.ResultField)) != nil
}

// givenFields returns the results from --field: NAME=VALUE, or NAME:=JSON.
func givenFields(c *cli.Context) ([]cycle.Field, error) {
	var fields []cycle.Field
	for _, word := range wordsOf(c, "field") {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, terminal.Usagef("for example --field verdict=green, or --field tests:=412", "--field %q is not NAME=VALUE or NAME:=JSON", word)
		}
		f := cycle.Field{Name: name, Text: value}
		if bare, isJSON := strings.CutSuffix(name, ":"); isJSON {
			if !json.Valid([]byte(value)) {
				return nil, terminal.Usagef("for example --field tests:=412", "--field %q: what follows := is not valid JSON", word)
			}
			f = cycle.Field{Name: bare, Value: json.RawMessage(value)}
		}
		fields = append(fields, f)
	}
	return fields, nil
}
