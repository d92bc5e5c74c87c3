package turn

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"agentstateloop/internal/plain"
)

const eventsName = "events.jsonl"

// maxEventText bounds the text of one line of events.jsonl, in bytes.
const maxEventText = 64 << 10

// startLine is the first line of events.jsonl. It omits the prompt and the environment, because
// they may contain secrets. argv must not contain any.
type startLine struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"` // "start"
	Version string    `json:"version"`
	Runner  string    `json:"runner"`
	Argv    []string  `json:"argv"`
	Workdir string    `json:"workdir"`
	PID     int       `json:"pid"` // 0 if the agent could not be started

	Note string `json:"note,omitempty"` // why the agent lacks our tools
}

// eventLine is a line between the first and the last.
type eventLine struct {
	Time time.Time `json:"time"`
	Event
}

// endLine is the last line of events.jsonl. If it is missing, the runner died.
type endLine struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"` // "end"
	Exit     Exit      `json:"exit"`
	ExitCode int       `json:"exit_code"`
	Status   Status    `json:"status"`
	Reason   string    `json:"reason"`
	Stderr   string    `json:"stderr"`
	Dropped  int       `json:"dropped"` // events that were not written
}

// eventLog writes events.jsonl. After a failed write it drops all further events, and the turn
// goes on.
type eventLog struct {
	w       io.WriteCloser // nil if the file could not be created
	room    int64
	dropped int
	err     error
}

// openEventLog creates events.jsonl in dir with room for about limit bytes.
func openEventLog(dir string, limit int64) *eventLog {
	f, err := os.OpenFile(filepath.Join(dir, eventsName), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return &eventLog{err: err}
	}
	return &eventLog{w: f, room: limit}
}

// event writes one event. It only counts the event if the log is full or has failed.
func (l *eventLog) event(at time.Time, e Event) {
	if l.err != nil || l.room <= 0 {
		l.dropped++
		return
	}
	e.Text = plain.Cut(e.Text, maxEventText)
	l.line(eventLine{at.UTC(), e})
}

// line writes v even if the log is full: the first and the last line always fit.
func (l *eventLog) line(v any) {
	if l.err != nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		l.err = err
		return
	}
	n, err := l.w.Write(append(b, '\n'))
	l.room -= int64(n)
	l.err = err
}

// end writes the last line, even after a failed write, and closes the file. It returns the log's
// first error.
func (l *eventLog) end(last endLine) error {
	failed := l.err
	if l.w == nil {
		return fmt.Errorf("write events: %w", failed)
	}
	l.err = nil
	last.Dropped = l.dropped
	l.line(last)
	if err := l.w.Close(); l.err == nil {
		l.err = err
	}
	if failed == nil {
		failed = l.err
	}
	if failed != nil {
		return fmt.Errorf("write events: %w", failed)
	}
	return nil
}
