package turn

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/internal/osfile"
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
	o.recordLimit(e)
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

// recordLimit keeps the limit that an event reports until the agent works again.
func (o *output) recordLimit(e Event) {
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
	text := strings.TrimSpace(o.segment.String())
	if o.done != nil && o.done.Failed && text == strings.TrimSpace(o.done.Text) {
		return false
	}
	return text != ""
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

const answerName = "answer.txt"

// spool collects an answer of any length. It keeps the beginning in memory. A longer answer also
// goes to a file, from its first byte, up to maxFile bytes.
type spool struct {
	path    string
	maxMem  int
	maxFile int64
	mem     []byte
	n       int64 // bytes written, kept or dropped
	file    *os.File
	err     error // of the file; the text in memory stays valid
}

func (s *spool) write(b string) {
	s.n += int64(len(b))
	room := s.maxMem - len(s.mem)
	kept := len(s.mem)
	s.mem = append(s.mem, b[:min(len(b), room)]...)
	if s.n <= int64(s.maxMem) || s.err != nil {
		return
	}
	if s.file == nil {
		s.file, s.err = osfile.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if s.err != nil {
			return
		}
		s.put(string(s.mem[:kept]), 0)
	}
	s.put(b, s.n-int64(len(b)))
}

// put appends b to the file, up to the bound. b begins at offset at of the answer.
func (s *spool) put(b string, at int64) {
	room := max(0, s.maxFile-at)
	if s.err == nil && room > 0 {
		_, s.err = s.file.WriteString(b[:min(int64(len(b)), room)])
	}
}

// truncated reports whether part of the answer was dropped.
func (s *spool) truncated() bool { return s.n > s.maxFile || s.err != nil }

// close returns the text in memory and, if the answer is longer, the file's name.
func (s *spool) close() (text, file string) {
	if s.file == nil {
		return string(s.mem), ""
	}
	s.file.Close()
	return string(s.mem), filepath.Base(s.path)
}

// reset discards the answer.
func (s *spool) reset() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.path)
	}
	s.mem, s.n, s.file, s.err = nil, 0, nil, nil
}

// maxReplay bounds how much of an events.jsonl is read, in bytes. Its writer stops earlier.
const maxReplay = 2 * DefaultMaxEvents

// ReplayOutput returns the text of an agent whose runner died, from the events.jsonl of the
// attempt in dir. That is the answer if the agent was done, otherwise all its text. The text is
// as clean as Result.Text and has at most DefaultMaxText bytes. It is "" if the agent printed no
// text or the file cannot be read. Lines that are torn, unknown or too long are skipped.
func ReplayOutput(dir string) string {
	f, err := openEvents(dir)
	if err != nil {
		return ""
	}
	defer f.Close()
	var s outputReplay
	readLines(io.LimitReader(f, maxReplay), s.read, func(Event) {})
	if s.answer != "" {
		return plain.Cut(clean(s.answer), DefaultMaxText)
	}
	return plain.Cut(clean(s.text.String()), DefaultMaxText)
}

// openEvents opens the events.jsonl of an attempt. The agent may have replaced the file by
// anything, even a fifo.
func openEvents(dir string) (*os.File, error) {
	return osfile.Open(filepath.Join(dir, eventsName))
}

// outputReplay collects an agent's text from its events.
type outputReplay struct {
	separator string // between two pieces of text
	text      strings.Builder
	answer    string // of the last Done, unless the agent resumed work
}

// read processes one line of events.jsonl. It has the form of a parser and returns no events.
func (s *outputReplay) read(line []byte) []Event {
	var l struct {
		Event
		Runner string `json:"runner"` // in the first line
	}
	if json.Unmarshal(line, &l) != nil {
		return nil
	}
	switch l.Kind {
	case "start":
		if kind, _, err := agentFor(l.Runner); err == nil {
			s.separator = kind.separator
		}
	case TextDelta:
		s.answer = ""
		if s.text.Len() > DefaultMaxText {
			return nil
		}
		if s.text.Len() > 0 {
			s.text.WriteString(s.separator)
		}
		s.text.WriteString(l.Text)
	case Thinking, ToolUse:
		s.answer = ""
	case Done:
		if !l.Failed {
			s.answer = l.Text
		}
	}
	return nil
}
