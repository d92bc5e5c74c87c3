package store

import (
	"bytes"
	"encoding/json"

	"agentstateloop/internal/members"
	"agentstateloop/state"
)

// The state and the history lines are JSON that encoding/json reads and writes. Package members
// does the same for the JSON this program writes, but without reflection over all types first.
// Other JSON falls back to encoding/json: files written by another version or by a person, damaged
// files, and values that cannot be encoded.

// Members lists the members of state.json.
func (s *stored) Members(c *members.Coder) {
	s.State.Members(c)
	members.OptObject(c, "chain", &s.Chain, (*chain).members)
	members.OptBool(c, "settled", &s.Settled)
}

func (c *chain) members(m *members.Coder) {
	members.Number(m, "serial", &c.Serial)
	members.Text(m, "sum", &c.Sum)
	members.Text(m, "before", &c.Before)
}

// encodeState appends the content of state.json to data, which is empty, and returns its memo. last
// is the memo of an earlier state, or nil.
func encodeState(data []byte, s *stored, last *members.Memo) ([]byte, *members.Memo, error) {
	data, memo, ok := members.AppendAgain(data, s, (*stored).Members, last)
	if !ok {
		var err error
		if data, err = json.Marshal(s); err != nil {
			return nil, nil, err
		}
		memo = nil
	}
	return append(data, '\n'), memo, nil
}

// decodeState decodes the output of encodeState, or any other JSON of a state. On an error, s holds
// the part that encoding/json decoded before it.
func decodeState(data []byte) (s stored, err error) {
	if members.Read(bytes.TrimSuffix(data, []byte("\n")), &s, (*stored).Members) {
		return s, nil
	}
	s = stored{}
	return s, json.Unmarshal(data, &s)
}

// marshalLine returns the JSON of a history line.
func marshalLine(l *state.Line) ([]byte, error) {
	if data, ok := members.Append(nil, l, (*state.Line).Members); ok {
		return data, nil
	}
	return json.Marshal(l)
}

// fileLine is a line as written to a history file.
type fileLine struct {
	state.Line
	Sum string `json:"sum,omitempty"`
}

// Members lists the members of a line in a file.
func (l *fileLine) Members(c *members.Coder) {
	l.Line.Members(c)
	members.OptText(c, "sum", &l.Sum)
}

// unmarshalLine decodes a history line, with or without its sum.
func unmarshalLine(raw []byte) (state.Line, error) {
	var l fileLine
	if members.Read(bytes.TrimSuffix(raw, []byte("\n")), &l, (*fileLine).Members) {
		return l.Line, nil
	}
	var other state.Line
	err := json.Unmarshal(raw, &other)
	return other, err
}
