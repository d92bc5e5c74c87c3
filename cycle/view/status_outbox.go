package view

import (
	"fmt"
	"time"

	"agentstateloop/internal/plain"
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
		v := StatusHook{Since: OrNull(f.Since), Reason: f.Reason, Lost: f.Lost}
		if f.Lost > 0 {
			v.LostAfter = &f.After
		}
		for _, e := range s.HookCalls {
			if e.To != h.Name {
				continue
			}
			if v.Waiting++; v.Waiting == 1 && v.Since != nil {
				v.NextTry = OrNull(e.NotBefore)
			}
		}
		all[h.Name] = v
	}
	return all
}

// StatusOutbox counts effects.
type StatusOutbox struct {
	Waiting       int `json:"waiting"`
	Undeliverable int `json:"undeliverable"` // given up and kept: see `outbox list`

	Holds []StatusHold `json:"holds"` // the reasons of Waiting effects, in the order of the first of each
}

// StatusHold counts effects that wait for the same reason. The next one is tried at NextTry, if
// that depends on the time alone.
type StatusHold struct {
	Why     state.Hold `json:"why"`
	Text    string     `json:"text"` // in words
	Count   int        `json:"count"`
	NextTry *time.Time `json:"next_try"`
}

// outboxStatus counts the effects of the outbox, by the reasons why they wait.
func outboxStatus(s state.State, now time.Time) StatusOutbox {
	st := StatusOutbox{Waiting: len(s.Outbox) + len(s.HookCalls), Undeliverable: len(s.Undelivered), Holds: []StatusHold{}}
	for _, rows := range [][]state.Effect{s.Outbox, s.HookCalls} {
		for _, e := range rows {
			st.add(holdOf(s, e, now))
		}
	}
	return st
}

// add counts an effect that waits.
func (o *StatusOutbox) add(h StatusHold) {
	for i := range o.Holds {
		known := &o.Holds[i]
		if known.Why != h.Why || known.Text != h.Text {
			continue
		}
		known.Count++
		if h.NextTry != nil && known.NextTry != nil {
			at := earlier(*known.NextTry, *h.NextTry)
			known.NextTry = &at
		}
		return
	}
	o.Holds = append(o.Holds, h)
}

// sendingLate is how long after the last step a row that is being sent may still be: SMTP
// servers answer within minutes, or not at all.
const sendingLate = 5 * time.Minute

// holdOf returns the reason why an effect waits.
func holdOf(s state.State, e state.Effect, now time.Time) StatusHold {
	why, until := s.HoldOf(e, now)
	h := StatusHold{Why: why, Count: 1, Text: holdText(s, e, why, now)}
	if until.After(now) {
		h.NextTry = &until
	}
	return h
}

// holdText describes a hold in words that do not change with time. The failure of a server or a
// hook has its own place in a status.
func holdText(s state.State, e state.Effect, why state.Hold, now time.Time) string {
	switch why {
	case state.HoldSending:
		if now.Sub(s.LastStep) > sendingLate {
			return "its sending process seems to have been killed; the next poll handles that"
		}
		return "is being sent by another process"
	case state.HoldHalt:
		return "held back by HALT"
	case state.HoldLogin:
		if e.Channel == state.ByMesh {
			return "the mesh rejects our token"
		}
		return "the mail server rejects our login"
	case state.HoldDown:
		return "the mail server is unavailable"
	case state.HoldOrder:
		return "waits for an earlier message to the same recipient"
	case state.HoldPace:
		return "the limit is five messages a minute to other agents"
	case state.HoldBackoff:
		return fmt.Sprintf("has been tried %s%s", timesTried(e.Attempts), withLead(": ", e.Reason))
	case state.HoldHook:
		return fmt.Sprintf("hook %s is failing", plain.Line(e.To))
	}
	if e.Channel == state.ByHook {
		return "the next poll calls hook " + plain.Line(e.To)
	}
	if e.Attempts > 0 || e.Denied {
		return "the next poll retries it" + withLead("; the last failure: ", e.Reason)
	}
	return "the next poll sends it"
}

// withLead returns lead and reason, or "" if the reason is empty.
func withLead(lead, reason string) string {
	if reason = plain.Line(reason); reason == "" {
		return ""
	}
	return lead + reason
}

func timesTried(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// StatusSending describes a time in which no mail can be sent.
type StatusSending struct {
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`   // of the last try
	NextTry time.Time `json:"next_try"` // the first poll from then on tries again
	Waiting int       `json:"waiting"`  // mails in the outbox
}

// SendingStatus returns nil if mail can be sent, as far as is known, or if no waiting mail may
// be sent.
func SendingStatus(s state.State) *StatusSending {
	if !s.SendingIsDown() {
		return nil
	}
	st := StatusSending{Since: s.SendingFails.Since, Reason: s.SendingFails.Reason}
	for _, e := range s.Outbox {
		if e.Channel != state.ByMail || s.Held(e) {
			continue
		}
		st.Waiting++
		if at := s.NextTry(e.ID); st.NextTry.IsZero() || at.Before(st.NextTry) {
			st.NextTry = at
		}
	}
	if st.Waiting == 0 {
		return nil
	}
	if st.NextTry.Before(s.NextDue) {
		st.NextTry = s.NextDue
	}
	return &st
}
