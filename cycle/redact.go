package cycle

import "agentstateloop/state"

// redact returns the events without the secrets that this process knows: the
// texts in them are kept, mailed and shown.
func (a *Agent) redact(events []state.Event) []state.Event {
	return state.Redact(events, a.Secrets.Redact)
}
