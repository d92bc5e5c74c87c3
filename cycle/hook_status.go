package cycle

import (
	"time"

	"agentstateloop/state"
)

// StatusHook is the status of a hook. The fields from Since on describe a failing hook.
type StatusHook struct {
	Waiting int        `json:"waiting"` // waiting events
	Since   *time.Time `json:"since"`   // the first failure; null: the hook works
	Reason  string     `json:"reason"`  // of the last failure
	Lost    int        `json:"lost"`    // events given up since then
	NextTry *time.Time `json:"next_try"`

	LostAfter *uint64 `json:"lost_after"` // the serial before the first lost event; null: no event was lost
}

// hookStatus returns the status of each hook of a policy, by name.
func hookStatus(s state.State, p state.Policy) map[string]StatusHook {
	all := map[string]StatusHook{}
	for _, h := range p.Hooks {
		f := s.FailingHooks[h.Name]
		v := StatusHook{Since: orNull(f.Since), Reason: f.Reason, Lost: f.Lost}
		if f.Lost > 0 {
			v.LostAfter = &f.After
		}
		for _, e := range s.HookCalls {
			if e.To != h.Name {
				continue
			}
			if v.Waiting++; v.Waiting == 1 && v.Since != nil {
				v.NextTry = orNull(e.NotBefore)
			}
		}
		all[h.Name] = v
	}
	return all
}
