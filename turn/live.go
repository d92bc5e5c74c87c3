package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
)

const (
	liveName  = "live.json"
	liveEvery = 500 * time.Millisecond
)

// Live is the state of a running attempt, for observers. A killed runner leaves its last Live
// behind; Probe reports whether the agent still lives.
type Live struct {
	TurnID string `json:"turn_id"`
	Epoch  uint64 `json:"epoch"`
	Runner string `json:"runner"`
	PID    int    `json:"pid"`

	Lifecycle    Lifecycle `json:"lifecycle"`
	Reason       string    `json:"reason"` // why the lifecycle is killed: "clean exit", "exit status 1", "timeout: ran longer than 10m0s", …
	State        State     `json:"state"`
	Tool         string    `json:"tool"`               // the last tool called that has no result yet
	WaitingTools int       `json:"waiting_tool_count"` // tools called without a result yet

	Started    time.Time `json:"started"`
	LastOutput time.Time `json:"last_output"`
	KillAt     time.Time `json:"kill_at"` // the next deadline
	KillFor    string    `json:"kill_for"`

	Session string  `json:"session"`
	CostUSD float64 `json:"cost_usd"`
}

// maxLive bounds the live view that ReadLive reads, in bytes.
const maxLive = 1 << 20

// ReadLive reads the live view of the attempt in dir. If it is missing, the error wraps
// os.ErrNotExist.
func ReadLive(dir string) (Live, error) {
	var l Live
	b, err := osfile.ReadFile(filepath.Join(dir, liveName), maxLive)
	if err != nil {
		return l, fmt.Errorf("read live view: %w", err)
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("read live view: %w", err)
	}
	return l, nil
}

// liveView is the Live of a running attempt and its file.
type liveView struct {
	Live
	dir     string
	stale   bool      // the file is out of date
	written time.Time // zero before the first write
}

func newLiveView(c Config, a Attempt, pid int, now time.Time) liveView {
	return liveView{dir: a.Dir, stale: true, Live: Live{
		TurnID: a.TurnID, Epoch: a.Epoch, Runner: c.Runner, PID: pid, Started: now.UTC(), Session: a.Session,
	}}
}

// due reports whether the file is out of date and at least liveEvery old.
func (v *liveView) due(now time.Time) bool {
	return v.stale && !now.Before(v.written.Add(liveEvery))
}

// write replaces the file. The file only informs observers, so write does not fsync it and
// ignores errors.
func (v *liveView) write(now time.Time) {
	v.written, v.stale = now, false
	_ = writeLive(v.dir, v.Live)
}

func writeLive(dir string, l Live) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+liveName)
	f, err := osfile.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, filepath.Join(dir, liveName))
}

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
