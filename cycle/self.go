package cycle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// An agent can wake itself (docs/design.md, "It drives itself"): by a sleep with a reason, a
// rest after an answer, or a reminder.

// ErrNoSelfTurns means that the configuration forbids turns that the agent causes itself.
var ErrNoSelfTurns = errors.New("this agent may not wake itself: [turn] self_turns is 0")

const (
	maxSelfText = 4 << 10 // bytes of the text of a wakeup
)

// Sleep records that the agent wants to be left alone for d. If why is not empty, the agent
// then wakes for a turn, whose prompt has why. A message or a nudge ends the sleep.
func (a *Agent) Sleep(ctx context.Context, in Inside, d time.Duration, why string) error {
	if strings.TrimSpace(why) != "" {
		if d > state.MaxSleep {
			return fmt.Errorf("a sleep can last a day at most: use remind to wake in %v", d)
		}
		_, err := a.planner().plan(ctx, in, state.Planned{Kind: state.KindSleep, For: d}, why)
		return err
	}
	s, err := a.journal().commit(ctx, state.Slept{TurnID: in.TurnID, Epoch: in.Epoch, For: d})
	if err != nil {
		return err
	}
	return in.check(s)
}

// restWords is the text of the row for a rest after an answer.
const restWords = "You rested after your answer, as set in [api] rest."

// Rest records that the agent rests for d after an answer, and, if wakes is set, then has a
// turn. If such a turn is not possible, the agent only rests. It also only rests after another
// agent's message, which must not make it go on by itself. A waiting sleep with a reason stays
// in this conversation, because it has not ended.
func (a *Agent) Rest(ctx context.Context, in Inside, d time.Duration, wakes bool) error {
	s, err := in.state(a.core())
	if err != nil || s.Sleeps(s.TurnPrincipal()) {
		return err
	}
	if !wakes || s.TurnPrincipal() != state.OperatorPrincipal {
		return a.Sleep(ctx, in, d, "")
	}
	_, err = a.planner().plan(ctx, in, state.Planned{Kind: state.KindRest, For: d}, restWords)
	if errors.Is(err, ErrNoSelfTurns) || errors.Is(err, errNoRoom) {
		return a.Sleep(ctx, in, d, "")
	}
	return err
}

// Remind sets the time of a turn whose prompt has text, from inside the turn in. ParseWhen
// describes the forms of when. Remind returns that time.
func (a *Agent) Remind(ctx context.Context, in Inside, when, text string) (time.Time, error) {
	return a.planner().remind(ctx, in, state.Planned{}, when, text)
}

// RemindByHand is Remind for the operator at the terminal, whose name is from.
func (a *Agent) RemindByHand(ctx context.Context, from, when, text string) (time.Time, error) {
	return a.planner().remind(ctx, Inside{}, state.Planned{From: from}, when, text)
}

// Wakeups returns the waiting wakeups of the agent, the next first. For the turn in it returns
// those of the turn's principal. For the operator at the terminal, who has no turn, it returns
// all.
func (a *Agent) Wakeups(in Inside) ([]view.Wakeup, error) {
	s, err := a.Store.Read()
	if err != nil {
		return nil, err
	}
	if in.TurnID != "" {
		if err := in.check(s); err != nil {
			return nil, err
		}
	}
	return view.Wakeups(s, a.Policy, a.Now(), func(m state.Message) bool {
		return in.TurnID == "" || m.Principal() == s.TurnPrincipal()
	}), nil
}

// planner makes the rows that wake the agent.
type planner struct {
	committer
	flusher *flusher
	replier *replier
}

func (a *Agent) planner() *planner {
	return &planner{committer: a.committer(), flusher: a.flusher(), replier: a.replier()}
}

// remind plans a reminder.
func (p *planner) remind(ctx context.Context, in Inside, e state.Planned, when, text string) (time.Time, error) {
	at, err := ParseWhen(when, p.now(), p.policy.Location)
	if err != nil {
		return time.Time{}, err
	}
	e.Kind, e.At = state.KindReminder, at
	return p.plan(ctx, in, e, text)
}

// errNoRoom means that the limit of waiting wakeups is reached.
var errNoRoom = fmt.Errorf("%d wakeups of this agent are already waiting, or half as many caused by other agents: see `inbox list`, and remove one with `inbox drop KEY`", state.MaxSelfRows)

// plan adds the row of e, with its words in a file. It returns the time at which the
// agent wakes. The row is durable then.
func (p *planner) plan(ctx context.Context, in Inside, e state.Planned, words string) (time.Time, error) {
	words = p.secrets.Redact(strings.TrimSpace(strings.ToValidUTF8(words, "\uFFFD")))
	switch {
	case p.policy.SelfTurns <= 0:
		return time.Time{}, ErrNoSelfTurns
	case words == "":
		return time.Time{}, errors.New("the reminder is empty: write down what the agent must do then")
	case len(words) > maxSelfText:
		return time.Time{}, fmt.Errorf("the text has %d bytes, and the limit is %d: put the rest into a file, and name that file", len(words), maxSelfText)
	}
	if err := p.acts(); err != nil {
		return time.Time{}, err
	}
	e.TurnID, e.Epoch = in.TurnID, in.Epoch
	if err := p.setThread(&e); err != nil {
		return time.Time{}, err
	}
	e.Key = "self:" + store.NewID()
	e.Title = view.TitleOf(words)
	e.Payload = store.PayloadName(store.MessagesDir, e.Key, ".txt")
	var err error
	if e.Sum, err = p.store.KeepSummed(e.Payload, strings.NewReader(words)); err != nil {
		return time.Time{}, fmt.Errorf("save text: %w", err)
	}
	s, err := p.journal.commit(ctx, e)
	if err != nil {
		return time.Time{}, err
	}
	row, ok := s.Message(e.Key)
	if !ok {
		_ = p.store.Remove(e.Payload)
		if in.TurnID != "" {
			err = in.check(s)
		}
		if err == nil {
			err = errNoRoom
		}
		return time.Time{}, err
	}
	return row.NextRetryAt, p.flusher.sendNow(ctx, s)
}

// setThread sets the mail thread for the answer of a planned turn.
func (p *planner) setThread(e *state.Planned) error {
	s, err := p.store.Read()
	if err != nil || !s.Turn.Owns(e.TurnID, e.Epoch) {
		return err // without a turn, or in one that is over
	}
	msg, _ := s.TurnMessage()
	m, err := readMessage(p.store, s.Turn, msg)
	if err != nil {
		return err
	}
	e.Thread, err = p.replier.plannedThread(m)
	return err
}

// The forms of a time, besides RFC 3339. A time without a date is the next one that a clock
// shows.
const (
	dateAndTime = "2006-01-02 15:04"
	timeOfDay   = "15:04"
	zoneOffset  = "-07:00"
)

// ErrNotATime means that a text is not a time, in any form.
var ErrNotATime = errors.New("is not a time")

// ParseWhen returns the time of a reminder: a duration such as 10m, 2h or 3d, or a time as
// 2026-03-02 08:00, 08:00 or RFC 3339. A time without a zone is local to loc. The time must be
// after now, by a year at most.
func ParseWhen(when string, now time.Time, loc *time.Location) (time.Time, error) {
	if loc == nil {
		loc = time.UTC
	}
	when = strings.TrimSpace(when)
	at, ok, err := parseTime(when, now.In(loc))
	if !ok {
		var d time.Duration
		if d, err = parseSpan(when); err == nil {
			at = now.Add(d)
		}
	}
	switch {
	case err != nil:
		return time.Time{}, err
	case !at.After(now):
		return time.Time{}, fmt.Errorf("%s has passed: it is now %s", when, now.In(loc).Format(dateAndTime))
	case at.Sub(now) > state.MaxReminder:
		return time.Time{}, fmt.Errorf("%s is too far ahead: the limit is %d days", when, int(state.MaxReminder/(24*time.Hour)))
	}
	return at.UTC(), nil
}

// parseTime parses a time. ok is false if when is not in one of its forms.
func parseTime(when string, now time.Time) (at time.Time, ok bool, err error) {
	if at, err := time.Parse(time.RFC3339, when); err == nil {
		return at, true, nil
	}
	for _, seconds := range []string{"", ":05"} {
		if at, err := time.ParseInLocation(dateAndTime+seconds, strings.Replace(when, "T", " ", 1), now.Location()); err == nil {
			return at, true, nil
		}
	}
	clock, err := time.Parse(timeOfDay, when)
	if err != nil {
		return time.Time{}, false, nil
	}
	// A change of the clocks may skip a time of day, or repeat it. So look at each minute that
	// passes.
	at = now.Truncate(time.Minute).Add(time.Minute)
	for at.Hour() != clock.Hour() || at.Minute() != clock.Minute() {
		at = at.Add(time.Minute)
	}
	return at, true, nil
}

// maxDays limits the days of a duration: a hundred years.
const maxDays = 36500

// parseSpan parses a duration: days, or the syntax of Go.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= maxDays {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf(`%q %w: write a duration such as 10m, 2h or 3d, or a time such as 08:00, "2026-03-02 08:00" or 2026-03-02T08:00:00Z`, text, ErrNotATime)
	}
	if d <= 0 {
		return 0, fmt.Errorf("%s is not in the future: a duration must be longer than zero", text)
	}
	return d, nil
}
