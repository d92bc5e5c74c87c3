package cycle

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// A turn hands back a text, and the results that its message asks for (docs/design.md, "The
// contract between agents").

// fieldsFile is the name of a turn's results in its output folder.
const fieldsFile = "deliverable.fields.json"

// handedBack is the deliverable of a turn.
type handedBack struct {
	Text   string      `json:"text"`
	Fields mesh.Fields `json:"fields,omitempty"`
}

// whole returns the deliverable as one text for people.
func (h handedBack) whole() string { return withFields(h.Fields, h.Text) }

// inferenceFailed begins the failure message of a turn, after the agent's own words.
const inferenceFailed = "Inference failed. "

// failed reports whether the text has such a failure message. It is then not Markdown, because
// it may end in the output of a program.
func (h handedBack) failed() bool { return strings.Contains("\n\n"+h.Text, "\n\n"+inferenceFailed) }

// submittedFile returns a file name for a deliverable in an attempt's folder. The file is
// outside of the output folder, where the agent may change every file. The name differs for
// each call, so two calls at once do not overwrite each other's file.
func submittedFile() string { return "submitted." + store.NewID() + ".json" }

// readSubmitted returns the submitted deliverable of a turn. Older versions kept the text
// alone.
func readSubmitted(st *store.Store, dir string, head state.Head) (handedBack, error) {
	data, err := st.ReadSummed(path.Join(dir, head.Submitted), head.SubmittedSum)
	if err != nil {
		return handedBack{}, err
	}
	if path.Ext(head.Submitted) != ".json" {
		return handedBack{Text: string(data)}, nil
	}
	var h handedBack
	return h, json.Unmarshal(data, &h)
}

// readHandedBack returns the deliverable of a turn that has ended.
func readHandedBack(st *store.Store, box, text, fields string) (handedBack, error) {
	data, err := st.ReadFile(path.Join(box, text), store.MaxPayload)
	if err != nil {
		return handedBack{}, fmt.Errorf("read deliverable: %w", err)
	}
	h := handedBack{Text: string(data)}
	if fields == "" {
		return h, nil
	}
	data, err = st.ReadFile(path.Join(box, fields), store.MaxPayload)
	if err == nil {
		err = json.Unmarshal(data, &h.Fields)
	}
	if err != nil {
		return h, fmt.Errorf("read the fields of the deliverable: %w", err)
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
