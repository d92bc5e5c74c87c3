package cycle

import (
	"fmt"
	"slices"
	"time"

	"agentstateloop/state"
)

// FromSending is the source of a failure to send mail.
const FromSending state.Source = "sending"

// unsentSource returns the source under which a failure to send is reported.
func unsentSource(c state.Channel) state.Source {
	if c == state.ByMesh {
		return state.Mesh
	}
	return FromSending
}

// failedSend returns the failure in the result of a send. It returns false without a failure,
// and for a failure that has its own place: a denied credential, or a withdrawn row.
func failedSend(e state.Effect, result []state.Event) (SourceFailure, bool) {
	failed, ok := result[0].(state.SendFailed)
	if !ok || failed.Denied || failed.Reason == "" {
		return SourceFailure{}, false
	}
	return SourceFailure{Source: unsentSource(e.Channel), Reason: fmt.Sprintf("%s to %s: %s", e.ID, e.To, failed.Reason)}, true
}

// addUnsent adds the effects that are still unsent when the poll ends, whether or not this poll
// has tried them: mail that no server takes, or each row that waits after a failure.
func (r *Report) addUnsent(s state.State, now time.Time) {
	if f, failing := noMailSent(s, now); failing {
		r.fail([]SourceFailure{f})
	}
	for _, e := range s.Outbox {
		source := unsentSource(e.Channel)
		listed := slices.ContainsFunc(r.Failed, func(f SourceFailure) bool { return f.Source == source })
		if e.Attempts == 0 || e.Denied || s.Held(e) || listed {
			continue
		}
		r.Failed = append(r.Failed, SourceFailure{
			Source: source, Reason: fmt.Sprintf("%s to %s waits: %s%s", e.ID, e.To, e.Reason, nextTryAfter(s.NextTry(e.ID), now)),
		})
	}
}

// noMailSent returns the failure of a server that takes no mail, if a mail waits that HALT does
// not hold.
func noMailSent(s state.State, now time.Time) (SourceFailure, bool) {
	sending := sendingStatus(s)
	if sending == nil {
		return SourceFailure{}, false
	}
	return SourceFailure{Source: FromSending, Reason: fmt.Sprintf("no mail can be sent since %s: %s; %d in the outbox%s",
		sending.Since.UTC().Format(time.RFC3339), sending.Reason, sending.Waiting, nextTryAfter(sending.NextTry, now))}, true
}

func nextTryAfter(at, now time.Time) string {
	if !at.After(now) {
		return ""
	}
	return ", next try after " + at.UTC().Format(time.RFC3339)
}

// StatusSending describes a time in which no mail can be sent.
type StatusSending struct {
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`   // of the last try
	NextTry time.Time `json:"next_try"` // the first poll from then on tries again
	Waiting int       `json:"waiting"`  // mails in the outbox
}

// sendingStatus returns nil if mail can be sent, as far as is known, or if no waiting mail may
// be sent.
func sendingStatus(s state.State) *StatusSending {
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
