package cycle

import (
	"slices"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// overdueAfter is how late the poll of cron may be before a listener takes it
// to be missing.
const overdueAfter = 10 * time.Second

// PollReason says why a poll should be made now: a nudge that no commit has taken, a
// turn without a runner, or whatever --if-due knows, the next poll only when
// cron is late with it. "" means that there is nothing. It takes no lock for
// longer than a look, and does not use the network.
func (a *Agent) PollReason() (string, error) {
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	rung, err := a.Store.Rung()
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(rung, func(n store.NudgeFile) bool { return !s.TookNudge(n.Key) }) {
		return "nudge", nil
	}
	if lost, err := a.lostTurn(s); err != nil || lost {
		return "turn without a runner", err
	}
	now := a.Now()
	why := s.Due(a.Policy, now)
	if why == "next poll" && now.Before(s.NextDue.Add(overdueAfter)) {
		return "", nil // cron is about to come
	}
	return why, nil
}

// lostTurn says whether the watchdog of a cycle would find something to reap.
func (a *Agent) lostTurn(s state.State) (bool, error) {
	switch {
	case laidDown(s.Turn):
		return true, nil
	case !owned(s.Turn):
		return false, nil
	case s.Turn.Pulled && s.Turn.Stop == "":
		return a.Now().Sub(s.Turn.Since) >= a.Policy.TurnTimeout, nil
	}
	return a.withLock(store.TurnLock, func() error { return nil })
}
