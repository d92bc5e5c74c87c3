package view

import (
	"slices"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// StatusPrompt is a prompt of the clock.
type StatusPrompt struct {
	Name  string     `json:"name"`
	At    string     `json:"at"`    // its times, as in a crontab
	Next  *time.Time `json:"next"`  // null: it has no next time
	Held  string     `json:"held"`  // the reason why it waits although it is due, or ""
	Fails string     `json:"fails"` // the last failure, or ""
	Since *time.Time `json:"since"` // start of the failures; null: it works
}

// PromptStatus returns the prompts of the clock. A prompt that no poll has seen yet has the
// time that the next poll gives it.
func PromptStatus(s state.State, p state.Policy, now time.Time) []StatusPrompt {
	all := []StatusPrompt{}
	for _, c := range p.Prompts {
		status := StatusPrompt{Name: c.Name, At: c.At}
		i := slices.IndexFunc(s.Prompts, func(row state.TimedPrompt) bool { return row.Name == c.Name })
		if i < 0 || s.Prompts[i].At != c.At {
			status.Next = OrNull(c.Next(now, p.Location).UTC())
		} else {
			row := s.Prompts[i]
			status.Next, status.Fails, status.Since = OrNull(row.Next), row.Fails, OrNull(row.Since)
			if !now.Before(row.Next) {
				status.Held = s.PromptsHeld(p, now)
			}
		}
		all = append(all, status)
	}
	return all
}

// MaxTitle is how many characters of its text a row shows.
const MaxTitle = 80

// Wakeup is a waiting row that wakes the agent: a sleep, a rest or a reminder.
type Wakeup struct {
	Seq   uint64    `json:"seq"` // its number in the inbox; 0 for a row of an older version
	Key   string    `json:"key"`
	Kind  string    `json:"kind"` // sleep, rest or reminder
	At    time.Time `json:"at"`
	Title string    `json:"title"` // the beginning of its words
	Held  string    `json:"held"`  // the reason why it waits although it is due, or ""
}

// Wakeups returns the waiting wakeups for which accept returns true, the next first.
func Wakeups(s state.State, p state.Policy, now time.Time, accept func(state.Message) bool) []Wakeup {
	rows := []Wakeup{}
	for _, m := range s.Planned() {
		if !accept(m) {
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

// TitleOf returns the beginning of a text, for a row.
func TitleOf(text string) string { return plain.Shorten(plain.Line(text), MaxTitle) }
