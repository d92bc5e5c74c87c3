package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// WaitReason is the reason why a message has no answer yet.
type WaitReason string

// The reasons. In the first group a person must act first, so waiting is useless.
const (
	WaitNoRunner   WaitReason = "no_runner"  // a person must take it from the inbox
	WaitHalted     WaitReason = "halted"     //
	WaitMoney      WaitReason = "money"      //
	WaitCooldown   WaitReason = "cooldown"   // too many turns failed in a row
	WaitBackend    WaitReason = "backend"    // no backend can be used now
	WaitBlocked    WaitReason = "blocked"    // a file blocks every turn
	WaitCredential WaitReason = "credential" // the agent's own login is refused

	WaitWorking   WaitReason = "working"   // its own turn runs
	WaitSuspended WaitReason = "suspended" // its own turn waits for reports
	WaitTurn      WaitReason = "turn"      // another message has its turn
	WaitReports   WaitReason = "reports"   // the turn of another message waits for reports
	WaitAnswer    WaitReason = "answer"    // its own turn waits for the operator's answer
	WaitQuestion  WaitReason = "question"  // the turn of another message waits for that answer
	WaitLingering WaitReason = "lingering" // the agent of the last turn has not ended
	WaitBehind    WaitReason = "behind"    // others come first
	WaitDeferred  WaitReason = "deferred"  // it waits for a time
	WaitSource    WaitReason = "source"    // a poll reads mail and mesh first, and a server fails
	WaitPoll      WaitReason = "poll"      // no poll has taken it
	WaitOutbox    WaitReason = "outbox"    // of a nudge: an effect is not sent
)

// Waiting describes the reason why a message has no answer yet.
type Waiting struct {
	Why   WaitReason
	Never bool // the work under way cannot end it

	Who    string       // sender of the message that has its turn or comes first; who is asked; the credential
	Source state.Source // of the message of Who
	Count  int          // of the messages that come first
	Since  time.Time    // of a turn, or an outage
	Until  time.Time    // when it goes on, if that is known
	Reason string       // in the words of its source
	By     []string     // where HALT was set
	Key    string       // the number of the message whose turn asks the operator
}

// shortRest is the longest rest after failed turns that a caller at a terminal waits for.
const shortRest = 10 * time.Second

// unpolledFor is how long polls may be silent or late before waiting for one is useless. A poll
// reads mail first, and may meet timeouts.
const unpolledFor = 2 * time.Minute

// WhyWaits returns the reason why the message with this key, which is in the inbox of s, has no
// answer yet.
func (r Reader) WhyWaits(s state.State, key string) Waiting {
	msg, _ := s.Message(key)
	if w, ok := waitForTurn(s, msg); ok && s.SharesTurn(msg) {
		return w
	}
	if w, ok := r.waitForAll(s); ok {
		return w
	}
	now, login := r.Now(), r.Policy.Login
	if msg.Status == state.Deferred && msg.TurnID != "" && s.Fails(login) {
		c := s.Credentials[login]
		return Waiting{Why: WaitCredential, Never: true, Who: login, Since: c.Since, Reason: c.Reason}
	}
	if w, ok := waitForTurn(s, msg); ok {
		return w
	}
	if msg.Status == state.Deferred && msg.NextRetryAt.After(now) {
		return Waiting{Why: WaitDeferred, Until: msg.NextRetryAt, Reason: msg.Reason}
	}
	if first := s.Before(key, *r.Policy, now); len(first) > 0 {
		return Waiting{Why: WaitBehind, Who: first[0].From, Source: first[0].Source, Count: len(first)}
	}
	return r.waitForPoll(s)
}

// waitForAll returns the reason that holds back every turn.
func (r Reader) waitForAll(s state.State) (w Waiting, ok bool) {
	if r.Turn == nil {
		return Waiting{Why: WaitNoRunner, Never: true}, true
	}
	if s.Halted() {
		return Waiting{Why: WaitHalted, Never: true, By: HaltedBy(s)}, true
	}
	if rest := s.CooldownUntil.Sub(r.Now()); rest > 0 {
		return Waiting{Why: WaitCooldown, Never: rest > shortRest, Until: s.CooldownUntil}, true
	}
	if backend, o, out := s.AllOut(*r.Policy, r.Now()); out {
		return Waiting{Why: WaitBackend, Never: o.Until.Sub(r.Now()) > shortRest, Until: o.Until, Since: o.Since, Reason: o.Sentence(backend)}, true
	}
	if why := OutOfMoney(s, *r.Policy, r.Now()); why != "" {
		return Waiting{Why: WaitMoney, Never: true, Reason: why}, true
	}
	if err := r.Store.Blocked(s); err != nil {
		return Waiting{Why: WaitBlocked, Never: true, Reason: err.Error()}, true
	}
	return Waiting{}, false
}

// waitForTurn returns the wait for the turn that is under way. ok is false without such a turn.
func waitForTurn(s state.State, msg state.Message) (w Waiting, ok bool) {
	head := s.Turn
	has, _ := s.TurnMessage()
	own := s.SharesTurn(msg)
	w = Waiting{Who: has.From, Source: has.Source, Since: head.Since}
	switch {
	case head.Lingering():
		w.Why = WaitLingering
	case head.Status == state.HeadIdle:
		return w, false
	case head.Status == state.HeadSuspended:
		w.Why, w.Until = WaitReports, head.ResumeBy
		if own {
			w.Why = WaitSuspended
		}
		for _, open := range head.Waiting {
			if !open.Answered() {
				w.Who = open.To
			}
		}
		for _, open := range head.Waiting {
			if open.Operator && !open.Answered() {
				w.Why, w.Who, w.Until, w.Reason, w.Key = WaitQuestion, open.To, open.By, open.Text+OptionsText(open.Options), strconv.FormatUint(has.Seq, 10)
				if own {
					w.Why = WaitAnswer
				}
			}
		}
	default:
		w.Why = WaitTurn
		if own {
			w.Why = WaitWorking
		}
	}
	return w, true
}

// waitForPoll returns the reason why no poll has run a message that could have its turn.
func (r Reader) waitForPoll(s state.State) Waiting {
	now := r.Now()
	if c, fails := s.Credentials[state.CredentialIMAP]; fails {
		return Waiting{Why: WaitSource, Who: state.CredentialIMAP, Since: c.Since, Reason: c.Reason}
	}
	if offline(s, *r.Policy, r.ReadsMail) {
		return Waiting{Why: WaitSource, Since: s.LastMailRead}
	}
	return Waiting{Why: WaitPoll, Until: s.NextDue, Never: r.pollIsLate(s, now)}
}

// pollIsLate reports whether the poll that was due has not come, or polls are never due.
func (r Reader) pollIsLate(s state.State, now time.Time) bool {
	silent := now.Sub(s.LastStep) > unpolledFor
	return silent && (r.Unscheduled || now.Sub(s.NextDue) > unpolledFor)
}

// whyNudgeWaits returns the reason why a nudge has not come further than got shows. ok is false if
// the reason is unknown.
func (r Reader) whyNudgeWaits(got Receipt) (w Waiting, ok bool) {
	s, err := r.Store.Read()
	if err != nil {
		return w, false
	}
	if got.Polled == nil {
		return Waiting{Why: WaitPoll, Until: s.NextDue}, true
	}
	if w, ok := waitForTurn(s, state.Message{}); ok {
		return w, true
	}
	if next, ok := s.NextToRun(*r.Policy, r.Now()); ok {
		return Waiting{Why: WaitBehind, Who: next.From, Source: next.Source, Count: 1}, true
	}
	if len(s.Outbox) == 0 {
		return w, false
	}
	h := holdOf(s, s.Outbox[0], r.Now())
	w = Waiting{Why: WaitOutbox, Count: len(s.Outbox), Reason: h.Text}
	if h.NextTry != nil {
		w.Until = *h.NextTry
	}
	return w, true
}

// OptionsText returns the options of a question in parentheses, or "".
func OptionsText(options []string) string {
	if len(options) == 0 {
		return ""
	}
	return " (" + plain.Line(strings.Join(options, ", ")) + ")"
}

// OutOfMoney returns the reason why the agent cannot afford a turn, or "".
func OutOfMoney(s state.State, p state.Policy, now time.Time) string {
	if s.Tier(p, now) != state.TierDead {
		return ""
	}
	limit, _ := s.Tightest(p, now)
	return fmt.Sprintf("%s is used up, and your messages wait %s", limit.What(), limit.Remedy())
}
