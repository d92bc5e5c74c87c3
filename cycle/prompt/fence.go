package prompt

import (
	"fmt"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// The tags of our fences. A foreign text that contains one of them, in any disguise, is broken
// up (see defuse).
const (
	tagMessage  = "message"
	tagMemory   = "memory"
	tagHistory  = "history"
	tagAsked    = "asked"    // the message of an exchange
	tagAnswered = "answered" // the answer of an exchange
	tagSummary  = "summary"
	tagReport   = "report"
	tagSaid     = "said"
	tagFields   = "fields"        // the fields of a report
	tagAskedFor = "result_fields" // the fields that a message asks for
	tagSystem   = "system_message"
	tagFiles    = "files" // the attached files
)

// Fences puts the texts of one prompt between tags that mark them as data. Every tag contains
// the boundary, so the author of a text cannot know how its fence ends (docs/design.md, "The
// prompt").
type Fences struct {
	Boundary string // a random word of letters and digits, different in each prompt
}

// Fence returns text between tags. The text cannot close the fence or open another.
func (f Fences) Fence(tag, text string) string { return f.enclose(tag, "", f.defuse(text)) }

// enclose puts a defused text between tags. The opening tag has attributes.
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

// Message returns the text of a turn's message, fenced, with the list of its attached files in a
// fence inside. Without files, list is "".
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

// AgentOutput returns the agent's earlier output, fenced, or "" if it is empty.
func (f Fences) AgentOutput(text string) string { return f.fenced(tagSaid, text) }

// ResultFields returns the result fields that a message asks for, one a line, fenced, or ""
// without any. The message's sender chose their names and descriptions.
func (f Fences) ResultFields(fields []state.ResultField) string {
	var lines []string
	for _, r := range fields {
		lines = append(lines, plain.Line(r.String()))
	}
	return f.fenced(tagAskedFor, strings.Join(lines, "\n"))
}

// Files returns a list of attached files, fenced, or "" if it is empty. The sender chose their
// names.
func (f Fences) Files(list string) string { return f.fenced(tagFiles, list) }

// Line returns a foreign text as one line without our tags.
func (f Fences) Line(text string) string { return f.defuse(plain.Line(text)) }

// Report is the answer to a question that a turn asked another agent or the operator, or the
// outcome of work that it started.
type Report struct {
	To, ID   string // the other agent, and the id of the question
	Question string
	Status   state.Outcome // of the other agent's turn; "" if it is unknown
	Fields   string        // its results, as a JSON object; "" without any
	Text     string        // the report, or a note that the report is missing
	Files    string        // attached files, one a line; "" without files
	Outside  bool          // there was no other agent: To names the work that the turn had started, or is ""
	Operator bool          // the operator was asked
	Permit   bool          // the question was whether a tool may be called; Allowed is the operator's answer
	Allowed  bool
	Option   string // the offered option that the operator chose; "" for another answer
}

// Report returns a question, on one line, with its report: first the status, which is in our own
// words, then the fields and the text, fenced.
func (f Fences) Report(r Report) string {
	did := "You asked @" + f.Line(r.To)
	switch {
	case r.Permit:
		did = "A call of yours waited for your operator's permission"
	case r.Operator:
		did = "You asked your operator"
	case r.Outside && r.To == "":
		did = "You suspended this turn"
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
			parts = append(parts, "Make exactly the same call again: it is allowed once.")
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

// SystemNote returns the note of a reset, which begins the next context, or "" if the reset has
// no note.
func (f Fences) SystemNote(r state.Reset) string {
	if r.Note == "" {
		return ""
	}
	return f.enclose(tagSystem, fmt.Sprintf(" origin=%q", f.Line(r.Origin)), f.defuse(r.Note))
}
