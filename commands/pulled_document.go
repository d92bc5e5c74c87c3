package commands

import (
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// pulledOutput is the JSON output of inbox next.
type pulledOutput struct {
	TurnID       string               `json:"turn_id"`
	Epoch        uint64               `json:"turn_epoch"`
	Key          string               `json:"key"`
	Source       state.Source         `json:"source"`
	Number       string               `json:"number"` // of the message
	From         string               `json:"from"`
	Text         string               `json:"text"`
	Note         string               `json:"note"`
	ResultFields []resultFieldOutput  `json:"result_fields"` // requested by the sender
	Earlier      []earlierOutput      `json:"earlier"`
	Files        []files.ReceivedFile `json:"files"`
}

// earlierOutput is an earlier message with the same answer.
type earlierOutput struct {
	Key   string               `json:"key"`
	At    time.Time            `json:"at"`
	Text  string               `json:"text"`
	Files []files.ReceivedFile `json:"files"`
}

// resultFieldOutput is a result field that a sender asks for.
type resultFieldOutput struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // "" for any type
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// pulledOf converts a taken message to its JSON output.
func pulledOf(m cycle.Pulled) pulledOutput {
	v := pulledOutput{
		TurnID: m.TurnID, Epoch: m.Epoch, Number: m.Number, Key: m.Key, Source: m.Source, From: m.From, Text: m.Text, Note: m.Note,
		ResultFields: resultFieldsOf(m.ResultFields), Earlier: []earlierOutput{}, Files: orEmpty(m.Files),
	}
	for _, one := range m.Earlier {
		v.Earlier = append(v.Earlier, earlierOutput{Key: one.Key, At: one.At, Text: one.Text, Files: orEmpty(one.Files)})
	}
	return v
}

func resultFieldsOf(fields mesh.ResultFields) []resultFieldOutput {
	all := []resultFieldOutput{}
	for _, f := range fields {
		all = append(all, resultFieldOutput(f))
	}
	return all
}

// orEmpty returns a list that is [] in JSON, not null.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }
