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

// PollReason returns why a poll should be made now, or "": a nudge that no commit
// has taken, a turn without a runner, or what makes `poll --if-due` poll. The
// next poll itself is a reason only if cron is late with it. PollReason holds no
// lock for longer than it takes to test it, and does not use the network.
func (a *Agent) PollReason() (string, error) { return a.pollReasons().reason() }

// pollReasons finds out why a poll should be made now.
type pollReasons struct {
	core
}

// reason is PollReason.
func (p pollReasons) reason() (string, error) {
	s, err := p.store.Read()
	if err != nil {
		return "", err
	}
	rung, _ := p.store.Nudges() // a cycle reports the error
	if slices.ContainsFunc(rung, func(n store.NudgeFile) bool { return !s.TookNudge(n.Key) }) {
		return "nudge", nil
	}
	if lost, err := p.lostTurn(s); err != nil || lost {
		return "turn without a runner", err
	}
	return dueWithoutCron(s, *p.policy, p.now()), nil
}

// dueWithoutCron returns why a poll is due that cron is not about to make, or "".
func dueWithoutCron(s state.State, policy state.Policy, now time.Time) string {
	if s.Turn.Lingering() {
		policy.Turns = false // none begins before its runner has seen the end of the agent
	}
	why := s.Due(policy, now)
	if why == "next poll" && now.Before(s.NextDue.Add(overdueAfter)) {
		return s.DueRow(policy, now) // cron is about to come, and a row does not wait for it
	}
	return why
}

// lostTurn reports whether the watchdog of a cycle would find a turn to reap.
func (p pollReasons) lostTurn(s state.State) (bool, error) {
	switch {
	case stoppedWhileSuspended(s.Turn):
		return true, nil
	case !owned(s.Turn) && !s.Turn.Lingering():
		return false, nil
	case s.Turn.Pulled && s.Turn.Stop == "":
		return p.now().Sub(s.Turn.Since) >= p.policy.TurnTimeout, nil
	}
	return withLock(p.store, store.TurnLock, func() error { return nil })
}
