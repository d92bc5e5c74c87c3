package cycle

import (
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"time"
)

// maxTitle is how many characters of its text a row shows.
const maxTitle = 80

// Wakeup is a waiting row that wakes the agent: a sleep, a rest or a reminder.
type Wakeup struct {
	Seq   uint64    `json:"seq"` // its number in the inbox; 0 for a row of an older version
	Key   string    `json:"key"`
	Kind  string    `json:"kind"` // sleep, rest or reminder
	At    time.Time `json:"at"`
	Title string    `json:"title"` // the beginning of its words
	Held  string    `json:"held"`  // the reason why it waits although it is due, or ""
}

// wakeups returns the waiting wakeups that shown accepts, the next first.
func wakeups(s state.State, p state.Policy, now time.Time, shown func(state.Message) bool) []Wakeup {
	rows := []Wakeup{}
	for _, m := range s.Planned() {
		if !shown(m) {
			continue
		}
		w := Wakeup{Seq: m.Seq, Key: m.Key, Kind: m.Kind, At: m.NextRetryAt, Title: m.Title}
		if !now.Before(m.NextRetryAt) {
			w.Held = s.SelfHeld(m, p, now)
		}
		rows = append(rows, w)
	}
	return rows
}

// titleOf returns the beginning of a text, for a row.
func titleOf(text string) string { return plain.Shorten(plain.Line(text), maxTitle) }
