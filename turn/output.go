package turn

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// stderrTail bounds the kept end of stderr, and that of the reported errors, in bytes.
const stderrTail = 8 << 10

// output holds the agent's output so far, and the state derived from it.
type output struct {
	agent   agent
	maxText int

	answer  spool           // the agent's whole text
	segment strings.Builder // the agent's text since the last tool
	faults  tail            // the errors that it reported
	stderr  tail
	done    *Event // the last Done; nil while the agent works
	session string
	limit   *Outage // the limit that it has reported since it last worked
	notes   []string
	refused []string
	bill    Bill

	context int64 // tokens in the session at the last Done
	window  int64 // the model's context window in tokens
	calls   int   // requests to its model that ended in tools
	inTools bool  // tools were called since the last tool result
}

// newOutput returns the output of an agent that was started with argv.
func newOutput(c Config, a Attempt, kind agent, argv []string) output {
	return output{
		agent:   kind,
		maxText: c.MaxText,
		answer:  spool{path: filepath.Join(a.Dir, answerName), maxMem: c.MaxText, maxFile: c.MaxOutput},
		faults:  tail{max: stderrTail},
		stderr:  tail{max: stderrTail},
		session: a.Session,
		bill:    kind.openBill(argv),
	}
}

// apply processes one event.
func (o *output) apply(e Event) {
	o.agent.add(&o.bill, e)
	o.noteLimit(e)
	switch e.Kind {
	case SessionStart:
		if validSession(e.Session) {
			o.session = e.Session
		}
	case TextDelta:
		o.text(e.Text)
	case ToolUse:
		o.segment.Reset()
		if !o.inTools {
			o.calls++ // tools called together belong to one request
		}
		o.inTools = true
	case ToolResult:
		o.inTools = false
	case Note:
		o.notes = append(o.notes, plain.Cut(clean(e.Text), maxReason))
	case Refused:
		o.refuse(e.Tool, e.Text)
	case Error:
		fmt.Fprintln(&o.faults, e.Text)
	case Done:
		o.done = &e
		if e.Context > 0 {
			o.context, o.window = e.Context, e.Window
		}
		if e.Failed {
			fmt.Fprintln(&o.faults, e.Text)
		}
	}
}

// text adds a piece of the answer.
func (o *output) text(piece string) {
	if o.answer.n > 0 {
		o.answer.write(o.agent.separator)
	}
	o.answer.write(piece)
	if o.segment.Len() > 0 {
		o.segment.WriteString(o.agent.separator)
	}
	if o.segment.Len() <= o.maxText { // a longer segment is not used
		o.segment.WriteString(piece)
	}
}

// noteLimit keeps the limit that an event reports until the agent works again.
func (o *output) noteLimit(e Event) {
	switch {
	case e.Obstacle:
		o.limit = &Outage{Kind: state.Obstacle, Reason: lastLine(e.Text)}
	case e.Limited || e.Overload:
		l := Outage{Kind: state.UsageLimit, Until: e.Until, Reason: lastLine(e.Text)}
		if !e.Limited {
			l.Kind = state.Overload
		}
		if o.limit != nil && o.limit.Kind == l.Kind && l.Until.IsZero() {
			l.Until = o.limit.Until
		}
		o.limit = &l
	case e.Kind == TextDelta, e.Kind == ToolUse, e.Kind == Done && !e.Failed:
		o.limit = nil
	}
}

// answered reports whether the agent has said something to its user. A repeated failure reason
// does not count.
func (o *output) answered() bool {
	said := strings.TrimSpace(o.segment.String())
	if o.done != nil && o.done.Failed && said == strings.TrimSpace(o.done.Text) {
		return false
	}
	return said != ""
}

// maxNotes bounds how many remarks of an agent reach its operator.
const maxNotes = 20

// remarks returns the agent's remarks to the operator for the end of the answer.
func (o *output) remarks() []string { return o.notes[:min(len(o.notes), maxNotes)] }

// Bounds of the denied actions that the operator sees.
const (
	maxRefused     = 10  // actions
	maxRefusedText = 200 // bytes of each
)

// refuse records a denied action, once.
func (o *output) refuse(tool, what string) {
	text := plain.Line(tool)
	if what = plain.Shorten(plain.Line(clean(what)), maxRefusedText); what != "" {
		text += ": " + what
	}
	if len(o.refused) < maxRefused && !slices.Contains(o.refused, text) {
		o.refused = append(o.refused, text)
	}
}
