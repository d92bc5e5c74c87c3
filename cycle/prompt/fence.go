package prompt

import (
	"fmt"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// The tags of our fences. A text of somebody else that holds one of them, in
// whatever disguise, is broken up (see defuse).
const (
	tagMessage  = "message"
	tagMemory   = "memory"
	tagHistory  = "history"
	tagAsked    = "asked"    // the message of an exchange
	tagAnswered = "answered" // its answer
	tagSummary  = "summary"
	tagReport   = "report"
	tagSaid     = "said"
	tagFields   = "fields"        // of a report
	tagAskedFor = "result_fields" // that a message asks for
	tagSystem   = "system_message"
	tagFiles    = "files" // that came along
)

// Fences puts the texts of one prompt between tags that mark them as data. Every tag
// holds the boundary, so that nobody who writes a text can know how its fence ends
// (docs/design.md, "The prompt").
type Fences struct {
	Boundary string // a random word of letters and digits, another one for each prompt
}

// Fence returns text between tags. The text cannot close the fence, nor open one.
func (f Fences) Fence(tag, text string) string { return f.enclose(tag, "", f.defuse(text)) }

// enclose puts lines that are safe already between tags, the first of them with
// attributes.
func (f Fences) enclose(tag, attributes, safe string) string {
	name := tag + " " + f.Boundary
	return "<" + name + attributes + ">\n" + strings.TrimRight(safe, "\n") + "\n</" + name + ">"
}

// fenced is Fence, but returns "" for an empty text.
func (f Fences) fenced(tag, text string) string {
	if text == "" {
		return ""
	}
	return f.Fence(tag, text)
}

// Message returns the text of a turn's message, fenced, with the list of the files that
// came with it, which has a fence of its own in it. Without files, list is "".
func (f Fences) Message(text, list string) string {
	text = strings.TrimRight(f.defuse(text), "\n")
	if list != "" {
		text += "\n\n" + f.Files(list)
	}
	return f.enclose(tagMessage, "", text)
}

// Memory returns the working memory, fenced, or "" if it is empty.
func (f Fences) Memory(text string) string { return f.fenced(tagMemory, text) }

// Summary returns a summary, fenced, or "" if it is empty.
func (f Fences) Summary(text string) string { return f.fenced(tagSummary, text) }

// Said returns what the agent had said, fenced, or "" if that is nothing.
func (f Fences) Said(text string) string { return f.fenced(tagSaid, text) }

// ResultFields returns the results that a message asks for, one a line, fenced, or "" if
// it asks for none. Their names and descriptions are its sender's.
func (f Fences) ResultFields(fields []state.ResultField) string {
	var lines []string
	for _, r := range fields {
		lines = append(lines, plain.Line(r.String()))
	}
	return f.fenced(tagAskedFor, strings.Join(lines, "\n"))
}

// Files returns a list of files that came along, fenced, or "" if it is empty. Their names
// are their sender's.
func (f Fences) Files(list string) string { return f.fenced(tagFiles, list) }

// Line returns a text of somebody else as one line that holds no tag of ours.
func (f Fences) Line(text string) string { return f.defuse(plain.Line(text)) }

// Report is the answer to a question that a turn asked another agent.
type Report struct {
	To, ID   string // the agent that was asked, the id of the question
	Question string
	Status   state.Outcome // of the other agent's turn; "" if it does not say
	Fields   string        // its results, as an object of JSON; "" if there are none
	Text     string        // the report, or the note that stands in for a missing one
	Files    string        // what came along, one file a line; "" if nothing
	Outside  bool          // no agent was asked: To names what the turn had started, or is ""
	Operator bool          // the operator was asked
	Permit   bool          // whether a tool may be called; Allowed is what they said
	Allowed  bool
	Option   string // of those that the question offered, the one that they chose; "" for another answer
}

// Report returns a question, on one line, with its report: the status, which is ours to
// say, then the fields and the text, fenced.
func (f Fences) Report(r Report) string {
	did := "You asked @" + f.Line(r.To)
	switch {
	case r.Permit:
		did = "A call of yours waited until your operator was asked"
	case r.Operator:
		did = "You asked your operator"
	case r.Outside && r.To == "":
		did = "You let this turn wait"
	case r.Outside:
		did = "You started " + f.Line(r.To)
	}
	parts := []string{fmt.Sprintf("%s (%s): %s", did, f.Line(r.ID), f.Line(r.Question))}
	if r.Status.Valid() {
		parts = append(parts, "Status: "+string(r.Status))
	}
	if r.Option != "" {
		parts = append(parts, "They chose: "+f.Line(r.Option))
		if r.Permit && r.Allowed {
			parts = append(parts, "Make exactly the same call again: it goes ahead, once.")
		}
	}
	if r.Fields != "" {
		parts = append(parts, f.Fence(tagFields, r.Fields))
	}
	if r.Text != "" || r.Fields == "" {
		parts = append(parts, f.Fence(tagReport, r.Text))
	}
	return strings.Join(parts, "\n")
}

// SystemNote returns the note of a reset, with which the next context begins, or ""
// if the reset has none.
func (f Fences) SystemNote(r state.Reset) string {
	if r.Note == "" {
		return ""
	}
	return f.enclose(tagSystem, fmt.Sprintf(" origin=%q", f.Line(r.Origin)), f.defuse(r.Note))
}
