package turn

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentstateloop/internal/plain"
)

// maxReplay is how much of an events.jsonl Said reads; its writer stops
// earlier.
const maxReplay = 2 * DefaultMaxEvents

// ReplayOutput is what the agent of the attempt in dir had said when its runner died,
// as events.jsonl tells it: all its text, or the answer that it was done with,
// clean as Result.Text is and at most DefaultMaxText bytes. It is "" where
// nothing was said or can be read. A line that is torn, foreign or too long
// takes nothing else away.
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

// openEvents opens the events.jsonl of an attempt. The agent may have put
// anything there, a fifo too.
func openEvents(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, eventsName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no plain file", eventsName)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// outputReplay gathers an agent's words from its events.
type outputReplay struct {
	joint  string // between two pieces of text
	text   strings.Builder
	answer string // the whole one, unless the agent went to work again
}

// read is the parser of events.jsonl; what it reads, it keeps.
func (s *outputReplay) read(line []byte) []Event {
	var l struct {
		Event
		Runner string `json:"runner"` // of the first line
	}
	if json.Unmarshal(line, &l) != nil {
		return nil
	}
	switch l.Kind {
	case "start":
		if kind, _, err := agentFor(l.Runner); err == nil {
			s.joint = kind.separator
		}
	case TextDelta:
		s.answer = ""
		if s.text.Len() > DefaultMaxText {
			return nil
		}
		if s.text.Len() > 0 {
			s.text.WriteString(s.joint)
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
