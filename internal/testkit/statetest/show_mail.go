package statetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentstateloop/state"
)

// unfetched returns the mails that cannot be fetched.
func (st *Story) unfetched() []string {
	return rows(st.S.FailingMails(), func(f state.FailingMail) string {
		return fmt.Sprintf("%s after %d tries, again at %s", f.Key, f.Tries, st.at(f.Next))
	})
}

func (st *Story) outbox() []string {
	due := st.S.DueEffects(st.Now)
	return rows(st.S.Outbox, func(e state.Effect) string {
		return fmt.Sprintf("%s to %s", e.ID, e.To) +
			when(contains(due, e), ", due") +
			when(e.NotBefore.After(st.Now), ", not before "+st.at(e.NotBefore)) +
			when(!e.Expires.IsZero(), ", expires "+st.at(e.Expires)) +
			when(e.Copies > 1, fmt.Sprintf(", %d copies", e.Copies)) +
			when(e.Sending, ", on its way") +
			when(e.Unknown && !e.Sending, ", may have arrived")
	})
}

// lost returns the mails that came back.
func (st *Story) lost() []string {
	return rows(st.S.Lost, func(r state.Returned) string {
		return fmt.Sprintf("%s to %s: %s", r.ID, r.To, r.Reason) + when(!r.Told.IsZero(), ", told")
	})
}

// sendingFails returns since when mail cannot be sent.
func (st *Story) sendingFails() []string {
	fails := st.S.SendingFails
	return []string{when(st.S.SendingIsDown(), fmt.Sprintf("fails since %s: %s", st.at(fails.Since), fails.Reason))}
}

// undelivered returns the rows that were given up, and how the operator was told.
func (st *Story) undelivered() []string {
	return rows(st.S.Undelivered, func(e state.Effect) string {
		return fmt.Sprintf("%s to %s at %s", e.ID, e.To, st.at(e.GivenUp)) + when(e.Told != "", ", told by "+string(e.Told))
	})
}

func (st *Story) quarantine() []string {
	s := st.S
	counts := []string{
		when(s.Quarantined > 0, fmt.Sprintf("%d kept", s.Quarantined)),
		when(s.Unkept > 0, fmt.Sprintf("%d not kept", s.Unkept)),
	}
	challenges := rows(s.Challenges, func(t state.OpenChallenge) string {
		return fmt.Sprintf("%s asks about %s until %s", t.ID, t.Key, st.at(t.Until))
	})
	return append(append(counts, challenges...),
		when(len(s.Unasked) > 0, "to be asked about: "+strings.Join(s.Unasked, " ")),
		when(len(s.Doubtful) > 0, "signed, to be asked about: "+strings.Join(s.Doubtful, " ")),
	)
}

func (st *Story) failing() []string {
	return rows(slices.Sorted(maps.Keys(st.S.Credentials)), func(name string) string {
		c := st.S.Credentials[name]
		return fmt.Sprintf("%s, failure %d since %s", name, c.Failures, st.at(c.Since)) +
			when(c.Keymaster.Sent, ", keymaster told") +
			when(c.Operator.Sent, ", operator told") +
			when(c.ToldByHook, ", told by a hook")
	})
}
