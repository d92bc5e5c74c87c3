package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentstateloop/internal/osfile"
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
