package mesh

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"agentstateloop/state"
)

// The limits of the fields that a sender sets (docs/design.md, "The mesh").
const (
	maxID          = 256 // bytes of an id that is acknowledged
	maxSentID      = 128 // bytes of an id that our mesh takes
	maxKind        = 64  // bytes
	maxCorrelation = 256 // bytes
	maxKeptHops    = 32  // of a message that passed too many agents, and that the operator may release
)

// Malformed returns, in words, why the form of a message is wrong, or "". A foreign or older
// mesh may show messages that our mesh would refuse.
func (m Message) Malformed() string {
	switch {
	case m.ID != "" && !m.CanAck():
		return fmt.Sprintf("its id is over %d bytes, or holds a slash or a control character", maxID)
	case len(m.Kind) > maxKind:
		return fmt.Sprintf("its kind is over %d bytes", maxKind)
	case len(m.Text) > MaxMessage:
		return fmt.Sprintf("it is over %d bytes", MaxMessage)
	case len(m.Hops) > maxKeptHops:
		return fmt.Sprintf("it has over %d hops", maxKeptHops)
	}
	return m.malformedFields()
}

// malformedFields is Malformed for the fields that our mesh passes on unchanged.
func (m Message) malformedFields() string {
	switch {
	case slices.ContainsFunc(m.Hops, func(h string) bool { return !state.ValidHandle(h) }):
		return "hops contains an invalid handle"
	case len(m.Correlation) > maxCorrelation || strings.ContainsFunc(m.Correlation, unicode.IsControl):
		return fmt.Sprintf("correlation_id is over %d bytes, or holds a control character", maxCorrelation)
	case m.Trace != "" && !ValidTrace(m.Trace):
		return "trace_id must have 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + = , -"
	}
	if err := state.CheckResultFields(m.ResultFields); err != nil {
		return "result_fields: " + err.Error()
	}
	if err := CheckFiles(m.Files); err != nil {
		return "files: " + err.Error()
	}
	return m.malformedReport()
}

// malformedReport is Malformed for the fields of a report besides its text.
func (m Message) malformedReport() string {
	switch {
	case m.Status != "" && !m.Status.Valid():
		return "status must be success, failed, canceled, partial or timeout"
	case m.TurnID != "" && !validID(m.TurnID):
		return "turn_id must have 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + = , -"
	case m.AfterExecution != "" && m.AfterExecution != Continue && m.AfterExecution != Suspend && m.AfterExecution != Terminate:
		return "after_execution must be continue, suspend or terminate"
	}
	if err := m.Fields.Check(); err != nil {
		return "fields: " + err.Error()
	}
	return ""
}

// ValidTrace reports whether s can be the id of a chain.
func ValidTrace(s string) bool { return validID(s) }

// CanAck reports whether the id can be acknowledged: it is one segment of a path,
// even for a proxy that decodes it.
func (m Message) CanAck() bool {
	return m.ID != "" && len(m.ID) <= maxID && strings.Trim(m.ID, ".") != "" &&
		!strings.ContainsFunc(m.ID, func(r rune) bool { return r == '/' || r == '\\' || unicode.IsControl(r) })
}
