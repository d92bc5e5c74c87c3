package cycle

import (
	"time"

	"agentstateloop/state"
)

// StatusHook is how a hook fares. The fields from Since on are of a hook that fails.
type StatusHook struct {
	Waiting int        `json:"waiting"` // events
	Since   *time.Time `json:"since"`   // when it failed first; null: it does not fail
	Reason  string     `json:"reason"`  // of the last failure
	Lost    int        `json:"lost"`    // events that were given up since then
	NextTry *time.Time `json:"next_try"`

	LostAfter *uint64 `json:"lost_after"` // the serial before the first of them; null: none was
}

// hookStatus returns each hook of a policy, by name.
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
