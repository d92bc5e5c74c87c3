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
	Next  *time.Time `json:"next"`  // null: it has no next time
	Held  string     `json:"held"`  // the reason why it waits although it is due, or ""
	Fails string     `json:"fails"` // the last failure, or ""
	Since *time.Time `json:"since"` // start of the failures; null: it works
}

// promptStatus returns the prompts of the clock. A prompt that no poll has seen yet has the
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
