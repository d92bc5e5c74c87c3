package react

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Extras are the members of an answer with calls that we do not understand, but that the server
// may want back with the results of the calls: reasoning_content, extra_content,
// thought_signature, the thinking blocks of the Messages API. They go only to the same model at
// the same address.
type Extras struct {
	From    string            `json:"from"`
	Message members           `json:"message,omitempty"`
	Calls   []ExtraCall       `json:"calls,omitempty"`  // one for each call, in order
	Blocks  []json.RawMessage `json:"blocks,omitempty"` // of the Messages API, before the text
}

// ExtraCall holds the kept members of one call and of its function.
type ExtraCall struct {
	Call     members `json:"call,omitempty"`
	Function members `json:"function,omitempty"`
}

// fromServer returns the kept members of a model's answer at an address, or nil if the answer
// has no such members.
func (k Extras) fromServer(from string) *Extras {
	hasMembers := func(m members) bool { return len(m) > 0 }
	if len(k.Blocks) == 0 && !slices.ContainsFunc(k.objects(), hasMembers) {
		return nil
	}
	k.From = from
	return &k
}

// forServer returns the members that go back to a model at an address.
func (k *Extras) forServer(from string) Extras {
	if k == nil || k.From != from {
		return Extras{}
	}
	return *k
}

// objects returns the kept members of each object: the message, the calls and their functions.
func (k *Extras) objects() []members {
	if k == nil {
		return nil
	}
	all := []members{k.Message}
	for _, c := range k.Calls {
		all = append(all, c.Call, c.Function)
	}
	return all
}

// size returns the size in bytes.
func (k *Extras) size() (n int) {
	if k == nil {
		return 0
	}
	for _, m := range k.objects() {
		for name, value := range m {
			n += len(name) + len(value)
		}
	}
	for _, b := range k.Blocks {
		n += len(b)
	}
	return n
}

// memberPieces are members that arrive in pieces, by name. They are joined once, at the end: a
// model may send its thoughts in many thousands of pieces.
type memberPieces map[string][]json.RawMessage

// add adds the next piece of each member.
func (g *memberPieces) add(next members) {
	if *g == nil {
		*g = memberPieces{}
	}
	for name, piece := range next {
		(*g)[name] = append((*g)[name], piece)
	}
}

// join returns the joined members. It joins strings and arrays; for other values the last
// piece counts.
func (g memberPieces) join() members {
	if len(g) == 0 {
		return nil
	}
	m := members{}
	for name, pieces := range g {
		m[name] = joinPieces(pieces)
	}
	return m
}

// joinPieces joins the pieces of one member.
func joinPieces(pieces []json.RawMessage) json.RawMessage {
	last := pieces[len(pieces)-1]
	var text strings.Builder
	var list []json.RawMessage
	texts, lists := true, true
	for _, piece := range pieces {
		var s string
		var part []json.RawMessage
		texts = texts && json.Unmarshal(piece, &s) == nil
		lists = lists && json.Unmarshal(piece, &part) == nil
		text.WriteString(s)
		list = append(list, part...)
	}
	var data []byte
	switch {
	case texts:
		data, _ = json.Marshal(text.String())
	case lists:
		data, _ = json.Marshal(joinParts(list))
	default:
		return last
	}
	return data
}

// joinParts joins the pieces of the parts of an array: neighbours with the same type and the
// same index.
func joinParts(list []json.RawMessage) (parts []json.RawMessage) {
	var part memberPieces
	var before members
	end := func() {
		if part == nil {
			return
		}
		data, _ := json.Marshal(part.join()) // it was made from JSON
		parts, part, before = append(parts, data), nil, nil
	}
	for _, piece := range list {
		var m members
		if json.Unmarshal(piece, &m) != nil || m["index"] == nil {
			end()
			parts = append(parts, piece)
			continue
		}
		if !bytes.Equal(before["index"], m["index"]) || !bytes.Equal(before["type"], m["type"]) {
			end()
		}
		if before == nil {
			before = m
			part.add(m)
			continue
		}
		part.add(otherMembers(m, "index", "type", "format", "id")) // the omitted members are the same in each piece
	}
	end()
	return parts
}
