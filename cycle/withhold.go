package cycle

import "agentstateloop/state"

// withhold takes secrets out of the reasons of events: what a server, a command
// or an agent said may repeat them, and a reason is kept, mailed and shown.
func (a *Agent) withhold(events []state.Event) {
	for i, e := range events {
		switch e := e.(type) {
		case state.CredentialFailed:
			e.Reason = a.Secrets.Redact(e.Reason)
			events[i] = e
		case state.SendFailed:
			e.Reason = a.Secrets.Redact(e.Reason)
			events[i] = e
		case state.Scheduled:
			e.Reason = a.Secrets.Redact(e.Reason)
			events[i] = e
		case state.Ended:
			e.Reason = a.Secrets.Redact(e.Reason)
			events[i] = e
		case state.GivenBack:
			e.Reason = a.Secrets.Redact(e.Reason)
			events[i] = e
		case state.Compacted:
			e.Reason = a.Secrets.Redact(e.Reason)
			events[i] = e
		}
	}
}
