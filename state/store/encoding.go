package store

import (
	"bytes"
	"encoding/json"

	"agentstateloop/internal/members"
	"agentstateloop/state"
)

// The state and the lines of the history are JSON, as encoding/json writes and reads it.
// Package members does the same work for what this program writes, without a look at all
// types first. What it does not know is left to encoding/json: the file of another
// version or of a person, a damaged one, a value that cannot be written.

// Members lists what state.json holds.
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

// encodeState appends the content of state.json to data, which is empty. It returns the memo
// of it. last is the memo of an earlier state, or nil.
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

// decodeState reads what encodeState returned, and any other JSON of a state. On an
// error s holds what encoding/json understood before it.
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

// fileLine is a line as it is in a file of the history.
type fileLine struct {
	state.Line
	Sum string `json:"sum,omitempty"`
}

// Members lists what a line of a file holds.
func (l *fileLine) Members(c *members.Coder) {
	l.Line.Members(c)
	members.OptText(c, "sum", &l.Sum)
}

// unmarshalLine reads a line of the history, with its sum or without.
func unmarshalLine(raw []byte) (state.Line, error) {
	var l fileLine
	if members.Read(bytes.TrimSuffix(raw, []byte("\n")), &l, (*fileLine).Members) {
		return l.Line, nil
	}
	var other state.Line
	err := json.Unmarshal(raw, &other)
	return other, err
}
