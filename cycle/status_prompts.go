package cycle

import (
	"slices"
	"time"

	"agentstateloop/state"
)

// StatusPrompt is a prompt of the clock.
type StatusPrompt struct {
	Name  string     `json:"name"`
	At    string     `json:"at"`    // its times, as in a crontab
	Next  *time.Time `json:"next"`  // null: none
	Held  string     `json:"held"`  // what holds it back though its time has come, or ""
	Fails string     `json:"fails"` // why the last one came to nothing, or ""
	Since *time.Time `json:"since"` // since when; null: it does not fail
}

// promptStatus returns the prompts of the clock. One that no poll has seen yet has the
// time that the next poll gives it.
func promptStatus(s state.State, p state.Policy, now time.Time) []StatusPrompt {
	all := []StatusPrompt{}
	for _, c := range p.Prompts {
		shown := StatusPrompt{Name: c.Name, At: c.At}
		i := slices.IndexFunc(s.Prompts, func(row state.TimedPrompt) bool { return row.Name == c.Name })
		if i < 0 || s.Prompts[i].At != c.At {
			shown.Next = orNull(c.Next(now, p.Location).UTC())
		} else {
			row := s.Prompts[i]
			shown.Next, shown.Fails, shown.Since = orNull(row.Next), row.Fails, orNull(row.Since)
			if !now.Before(row.Next) {
				shown.Held = s.PromptsHeld(p, now)
			}
		}
		all = append(all, shown)
	}
	return all
}
