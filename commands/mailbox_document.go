package commands

import (
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// mailboxOutput is the JSON output of mesh inbox.
type mailboxOutput struct {
	Halted    bool                `json:"halted"`
	Messages  []meshMessageOutput `json:"messages"`
	Undecoded []undecodedOutput   `json:"undecoded"`
}

// meshMessageOutput is a message on the mesh. A value that its sender omitted is "", 0 or empty.
type meshMessageOutput struct {
	ID             string              `json:"id"`
	From           string              `json:"from"`
	Proven         bool                `json:"proven"`
	To             string              `json:"to"`
	Kind           string              `json:"kind"`
	Text           string              `json:"message"`
	SentAt         *time.Time          `json:"sent_at"`
	Correlation    string              `json:"correlation_id"`
	Trace          string              `json:"trace_id"`
	Hops           []string            `json:"hops"`
	ResultFields   []resultFieldOutput `json:"result_fields"`
	Files          []meshFileOutput    `json:"files"`
	Status         state.Outcome       `json:"status"`
	TurnID         string              `json:"turn_id"`
	Epoch          uint64              `json:"turn_epoch"`
	Fields         mesh.Fields         `json:"fields"`
	AfterExecution string              `json:"after_execution"`
}

// meshFileOutput is a file of a message.
type meshFileOutput struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// undecodedOutput is an item of a mailbox that is not a message.
type undecodedOutput struct {
	ID     string `json:"id"`
	From   string `json:"from"`
	Reason string `json:"reason"`
	Raw    []byte `json:"raw"`
}

// mailboxOf converts a mailbox of the mesh to its JSON output.
func mailboxOf(box mesh.Mailbox) mailboxOutput {
	v := mailboxOutput{Halted: box.Halted, Messages: []meshMessageOutput{}, Undecoded: []undecodedOutput{}}
	for _, m := range box.Messages {
		row := meshMessageOutput{
			ID: m.ID, From: m.From, Proven: m.Proven, To: m.To, Kind: m.Kind, Text: m.Text, SentAt: orNull(m.SentAt.UTC()),
			Correlation: m.Correlation, Trace: m.Trace, Hops: orEmpty(m.Hops), ResultFields: resultFieldsOf(m.ResultFields), Files: []meshFileOutput{},
			Status: m.Status, TurnID: m.TurnID, Epoch: m.Epoch, Fields: m.Fields, AfterExecution: m.AfterExecution,
		}
		for _, f := range m.Files {
			row.Files = append(row.Files, meshFileOutput{Name: f.Name, Type: f.Type, Size: f.Size, SHA256: f.SHA256})
		}
		v.Messages = append(v.Messages, row)
	}
	for _, u := range box.Undecoded {
		v.Undecoded = append(v.Undecoded, undecodedOutput{ID: u.ID, From: u.From, Reason: u.Reason, Raw: u.Raw})
	}
	return v
}
