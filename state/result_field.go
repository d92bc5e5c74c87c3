package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// The types of result fields, named as in JSON Schema. A field without a type takes any value.
const (
	TypeString  = "string"
	TypeNumber  = "number"
	TypeInteger = "integer"
	TypeBoolean = "boolean"
	TypeArray   = "array"
	TypeObject  = "object"
)

// Limits on the result fields of a message.
const (
	MaxResultFields     = 32
	maxFieldName        = 64  // bytes
	maxFieldDescription = 500 // bytes
)

var fieldTypes = []string{TypeString, TypeNumber, TypeInteger, TypeBoolean, TypeArray, TypeObject}

// ResultField is one named result that the sender of a message asks for
// (docs/protocol.md, "The contract between agents").
type ResultField struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"`        // "" means any
	Description string `json:"description,omitempty"` // by the sender, on one line
	Required    bool   `json:"required,omitempty"`
}

// String returns the field as people and agents see it.
func (f ResultField) String() string {
	text := f.Name + ": " + cmp.Or(f.Type, "any value")
	if f.Required {
		text += ", required"
	}
	if f.Description != "" {
		text += ". " + f.Description
	}
	return text
}

// CheckResultFields returns an error unless a message may ask for these fields.
func CheckResultFields(fields []ResultField) error {
	if len(fields) > MaxResultFields {
		return fmt.Errorf("there are more than %d result fields", MaxResultFields)
	}
	names := map[string]bool{}
	for _, f := range fields {
		if !ValidFieldName(f.Name) {
			return fmt.Errorf("a result field must have a name of 1 to %d of the characters A-Z a-z 0-9 _ -", maxFieldName)
		}
		if names[f.Name] {
			return fmt.Errorf("the result field %s is there twice", f.Name)
		}
		names[f.Name] = true
		if f.Type != "" && !slices.Contains(fieldTypes, f.Type) {
			return fmt.Errorf("the type of the result field %s must be one of %s", f.Name, strings.Join(fieldTypes, ", "))
		}
		if len(f.Description) > maxFieldDescription || strings.ContainsFunc(f.Description, unicode.IsControl) {
			return fmt.Errorf("the description of the result field %s is over %d bytes, or holds a control character", f.Name, maxFieldDescription)
		}
	}
	return nil
}

// ValidFieldName reports whether a result may have this name.
func ValidFieldName(name string) bool {
	return name != "" && len(name) <= maxFieldName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}
