package turn

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
)

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
