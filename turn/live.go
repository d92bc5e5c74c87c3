package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	liveName  = "live.json"
	liveEvery = 500 * time.Millisecond
)

// Live is what a running attempt looks like from outside. A runner that was
// killed leaves its last one behind: Probe tells whether it still holds.
type Live struct {
	TurnID string `json:"turn_id"`
	Epoch  uint64 `json:"epoch"`
	Runner string `json:"runner"`
	PID    int    `json:"pid"`

	Lifecycle    Lifecycle `json:"lifecycle"`
	State        State     `json:"state"`
	Tool         string    `json:"tool"`               // called last, not answered yet
	WaitingTools int       `json:"waiting_tool_count"` // called, not answered yet

	Started    time.Time `json:"started"`
	LastOutput time.Time `json:"last_output"`
	KillAt     time.Time `json:"kill_at"` // the next countdown ends here
	KillFor    string    `json:"kill_for"`

	Session string  `json:"session"`
	CostUSD float64 `json:"cost_usd"`
}

// ReadLive reads the live view of the attempt in dir. An attempt that has none
// gives an error that is os.ErrNotExist.
func ReadLive(dir string) (Live, error) {
	var l Live
	b, err := os.ReadFile(filepath.Join(dir, liveName))
	if err != nil {
		return l, fmt.Errorf("read live view: %w", err)
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("read live view: %w", err)
	}
	return l, nil
}

// writeLive replaces the live view. Nothing depends on it, so it is not
// fsynced, and its caller goes on without if it cannot be written.
func writeLive(dir string, l Live) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+liveName)
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, filepath.Join(dir, liveName))
}
