package cycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// A turn hands back a text, and the results that its message asks for (docs/protocol.md, "The
// contract between agents").

// fieldsFile is the name of a turn's results in its output folder.
const fieldsFile = "deliverable.fields.json"

// deliverableBody is the deliverable of a turn.
type deliverableBody struct {
	Text   string      `json:"text"`
	Fields mesh.Fields `json:"fields,omitempty"`
}

// whole returns the deliverable as one text for people.
func (h deliverableBody) whole() string { return withFields(h.Fields, h.Text) }

// inferenceFailed begins the failure message of a turn, after the agent's own words.
const inferenceFailed = "Inference failed. "

// failed reports whether the text has such a failure message. It is then not Markdown, because
// it may end in the output of a program.
func (h deliverableBody) failed() bool {
	return strings.Contains("\n\n"+h.Text, "\n\n"+inferenceFailed)
}

// submittedFile returns a file name for a deliverable in an attempt's folder. The file is
// outside of the output folder, where the agent may change every file. The name differs for
// each call, so two calls at once do not overwrite each other's file.
func submittedFile() string { return "submitted." + store.NewID() + ".json" }

// readSubmitted returns the submitted deliverable of a turn. Older versions kept the text
// alone.
func readSubmitted(st *store.Store, dir string, head state.Head) (deliverableBody, error) {
	data, err := st.ReadSummed(path.Join(dir, head.Submitted), head.SubmittedSum)
	if err != nil {
		return deliverableBody{}, err
	}
	if path.Ext(head.Submitted) != ".json" {
		return deliverableBody{Text: string(data)}, nil
	}
	var h deliverableBody
	return h, json.Unmarshal(data, &h)
}

// readDeliverableBody returns the deliverable of a turn that has ended.
func readDeliverableBody(st *store.Store, box, text, fields string) (deliverableBody, error) {
	data, err := st.ReadFile(path.Join(box, text), store.MaxPayload)
	if err != nil {
		return deliverableBody{}, fmt.Errorf("read deliverable: %w", err)
	}
	h := deliverableBody{Text: string(data)}
	if fields == "" {
		return h, nil
	}
	data, err = st.ReadFile(path.Join(box, fields), store.MaxPayload)
	if err == nil {
		err = json.Unmarshal(data, &h.Fields)
	}
	if err != nil {
		return h, fmt.Errorf("read deliverable fields: %w", err)
	}
	return h, nil
}

// printed returns the fields and the ending of a turn that ended by printing. The turn is
// partial if a required field is missing. The agent cannot be asked for it any more, so the
// fields that exist count.
func (m turnMessage) printed(r turn.Result) (mesh.Fields, turn.Result) {
	asked := m.sent.ResultFields
	if len(asked) == 0 || r.Status != turn.Success {
		return nil, r
	}
	var fields mesh.Fields
	for _, f := range printedObject(r.Text) {
		if kind, wanted := typeOf(asked, f.Name); wanted && hasType(f.Value, kind) {
			fields = append(fields, f)
		}
	}
	if fields.Check() != nil {
		fields = nil
	}
	if missing := missingFields(asked, fields); len(missing) > 0 {
		r.Status, r.Reason = turn.Partial, "required result fields are missing: "+strings.Join(missing, ", ")
	}
	return fields, r
}

// printedObject returns the members of a JSON object that is a whole text, bare or in one fence
// of Markdown. It returns nil for any other text.
func printedObject(text string) mesh.Fields {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		inner = strings.TrimPrefix(inner, "json")
		if inner, ok = strings.CutSuffix(inner, "```"); !ok {
			return nil
		}
		text = strings.TrimSpace(inner)
	}
	var fields mesh.Fields
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &fields) != nil {
		return nil
	}
	return fields
}

// typeOf returns the type of the result field with this name, if it is asked for.
func typeOf(asked mesh.ResultFields, name string) (kind string, wanted bool) {
	for _, r := range asked {
		if r.Name == name {
			return r.Type, true
		}
	}
	return "", false
}

// Field is one named result that an agent submits.
type Field struct {
	Name  string
	Value json.RawMessage // nil: the value is Text
	Text  string          // the value on a command line, parsed by the type that the message asks for
}

// typedFields returns the fields with the types that their message asks for. It is an error if a
// value has the wrong type or a required field is missing (docs/protocol.md, "The contract
// between agents").
func typedFields(asked mesh.ResultFields, given []Field) (mesh.Fields, error) {
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
		return nil, fmt.Errorf("required result fields are missing: %s: add --field %s=…", strings.Join(missing, ", "), missing[0])
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
		return "a JSON array"
	case state.TypeObject:
		return "a JSON object"
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
		fmt.Fprintf(&b, "%s: %s\n", f.Name, plainValue(f.Value))
	}
	if text != "" && b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String() + text
}

// plainValue returns a value for people: a string without its quotes.
func plainValue(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && value[0] == '"' {
		return text
	}
	return string(value)
}
