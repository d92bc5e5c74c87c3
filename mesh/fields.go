package mesh

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"agentstateloop/state"
)

// The limits of the result fields in a report.
const (
	MaxFields      = 64
	MaxFieldsBytes = 32 << 10 // of all fields together, as JSON
	MaxFieldDepth  = 100      // nested arrays and objects
)

// Field is one named result.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Fields are the named results of a turn, in the order in which they were set. Their JSON form
// is an object.
type Fields []Field

// MarshalJSON encodes the fields as an object, in their order.
func (fs Fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fs {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := encode(f.Name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		if err := json.Compact(&b, f.Value); err != nil {
			return nil, fmt.Errorf("the field %s is not valid JSON", f.Name)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON decodes an object without duplicate names.
func (fs *Fields) UnmarshalJSON(data []byte) error {
	*fs = nil
	if string(data) == "null" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.New("fields is not an object")
	}
	names := map[string]bool{}
	for dec.More() {
		if len(*fs) == MaxFields {
			return fmt.Errorf("more than %d fields", MaxFields)
		}
		name, err := dec.Token()
		if err != nil {
			return err
		}
		f := Field{Name: name.(string)} // the name of a member is a string
		if err := dec.Decode(&f.Value); err != nil {
			return err
		}
		if names[f.Name] {
			return errors.New("duplicate field")
		}
		names[f.Name] = true
		f.Value = withoutHTMLEscapes(f.Value)
		*fs = append(*fs, f)
	}
	return nil
}

// withoutHTMLEscapes undoes, in place, the escapes that json.Marshal adds for HTML. Otherwise a
// value would grow with each stored copy of a message.
func withoutHTMLEscapes(value []byte) []byte {
	plain := value[:0]
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' || i+1 == len(value) {
			plain = append(plain, value[i])
			continue
		}
		if i+6 <= len(value) {
			if c := htmlEscaped(string(value[i : i+6])); c != 0 {
				plain = append(plain, c)
				i += 5
				continue
			}
		}
		plain = append(plain, value[i], value[i+1])
		i++
	}
	return plain
}

// htmlEscaped returns the character of an HTML escape of json.Marshal, or 0.
func htmlEscaped(escape string) byte {
	switch escape {
	case `\u003c`:
		return '<'
	case `\u003e`:
		return '>'
	case `\u0026`:
		return '&'
	}
	return 0
}

// Check returns an error unless a report can carry these fields.
func (fs Fields) Check() error {
	if len(fs) > MaxFields {
		return fmt.Errorf("more than %d fields", MaxFields)
	}
	names := map[string]bool{}
	for _, f := range fs {
		if !state.ValidFieldName(f.Name) {
			return errors.New("a field must have a name of 1 to 64 of the characters A-Z a-z 0-9 _ -")
		}
		if names[f.Name] {
			return fmt.Errorf("duplicate field %s", f.Name)
		}
		names[f.Name] = true
		switch {
		case !json.Valid(f.Value):
			return fmt.Errorf("the field %s is not valid JSON", f.Name)
		case !utf8.Valid(f.Value):
			return fmt.Errorf("the field %s is not valid UTF-8", f.Name)
		case depth(f.Value) > MaxFieldDepth:
			return fmt.Errorf("the field %s is nested more than %d levels deep", f.Name, MaxFieldDepth)
		}
	}
	if size := fs.Size(); size > MaxFieldsBytes {
		return fmt.Errorf("the fields have %d bytes as JSON, the limit is %d", size, MaxFieldsBytes)
	}
	return nil
}

// depth returns how deeply the arrays and objects of a value are nested. Decoders limit the
// nesting, and each copy of a message adds to it.
func depth(value []byte) (deepest int) {
	open := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		case '"':
			i, _ = stringEnd(value, i) // the value is valid
		}
	}
	return deepest
}

// Size returns how many bytes the fields take in a message. It is 0 without fields.
func (fs Fields) Size() int {
	if len(fs) == 0 {
		return 0
	}
	data, err := fs.MarshalJSON()
	if err != nil {
		return MaxMessage // it is refused for another reason
	}
	return len(data)
}

// ResultFields are the results that the sender of a message asks for. In JSON each is an
// object, or a bare name for a required field of any type.
type ResultFields []state.ResultField

// MarshalJSON encodes a field as a bare name if that is enough: older agents know only names.
func (fs ResultFields) MarshalJSON() ([]byte, error) {
	list := make([]any, len(fs))
	for i, f := range fs {
		list[i] = f
		if f == bareField(f.Name) {
			list[i] = f.Name
		}
	}
	return encode(list)
}

// UnmarshalJSON decodes a list of names and objects. If the list is too long, it takes one item
// more than a message may have.
func (fs *ResultFields) UnmarshalJSON(data []byte) error {
	*fs = nil
	if string(data) == "null" {
		return nil
	}
	var wrong error
	err := eachElement(data, func(raw []byte) (more bool) {
		var f state.ResultField
		f, wrong = decodeResultField(raw)
		*fs = append(*fs, f)
		return wrong == nil && len(*fs) <= state.MaxResultFields
	})
	if err != nil {
		return errors.New("result_fields is not a list of names and objects")
	}
	return wrong
}

func decodeResultField(raw []byte) (state.ResultField, error) {
	var f state.ResultField
	if raw[0] == '"' {
		var name string
		err := json.Unmarshal(raw, &name)
		return bareField(name), err
	}
	if err := namesOnce(raw); err != nil {
		return f, fmt.Errorf("a result field is neither a name nor an object: %w", err)
	}
	err := json.Unmarshal(raw, &f)
	return f, err
}

// bareField returns the field that a bare name means.
func bareField(name string) state.ResultField { return state.ResultField{Name: name, Required: true} }
