package cycle

import (
	"errors"
	"io/fs"
	"time"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// Status is what `status --json` prints (DESIGN 11): null, never absent.
type Status struct {
	Agent       string                      `json:"agent"`
	Phase       state.Phase                 `json:"phase"`
	PhaseSince  *time.Time                  `json:"phase_since"`
	NextDue     *time.Time                  `json:"next_due"`
	Deadline    *time.Time                  `json:"deadline"`  // of the silence that ends the phase
	LastLook    *time.Time                  `json:"last_look"` // the last time the operator's mail could be looked at
	Offline     bool                        `json:"offline"`   // polls come, and cannot look at it
	Halted      bool                        `json:"halted"`
	HaltedBy    []string                    `json:"halted_by"` // where that was set: "here", "mesh"
	Tier        state.Tier                  `json:"tier"`
	Inbox       StatusInbox                 `json:"inbox"`
	Outbox      StatusOutbox                `json:"outbox"`
	Turn        StatusTurn                  `json:"turn"`
	Asleep      bool                        `json:"asleep"`         // nothing was left to do after the last turn
	SleepUntil  *time.Time                  `json:"sleep_until"`    // the agent's own wish to be left alone
	Cooldown    *time.Time                  `json:"cooldown_until"` // no turns until then: too many failed in a row
	Credentials map[string]StatusCredential `json:"credentials"`
	Schedule    StatusSchedule              `json:"schedule"`
	Spend       StatusSpend                 `json:"spend"`
}

// StatusInbox counts messages.
type StatusInbox struct {
	Waiting     int `json:"waiting"`
	Deferred    int `json:"deferred"`
	Quarantined int `json:"quarantined"`
}

// StatusOutbox counts effects.
type StatusOutbox struct {
	Waiting       int `json:"waiting"`
	Undeliverable int `json:"undeliverable"`
}

// StatusTurn is the active turn. What its agent does, from State on, is known
// while an agent of it lives, whichever process runs it; WaitingToolCount counts
// the tools it waits for, or the questions that a suspended turn waits for.
type StatusTurn struct {
	Status           state.HeadStatus `json:"status"`
	ID               *string          `json:"id"`
	Epoch            *uint64          `json:"epoch"`
	Lifecycle        *string          `json:"lifecycle"`
	State            *string          `json:"state"`
	Tool             *string          `json:"tool"`
	WaitingToolCount *int             `json:"waiting_tool_count"`
	Since            *time.Time       `json:"since"`       // this status
	LastOutput       *time.Time       `json:"last_output"` // of the agent
	KillAt           *time.Time       `json:"kill_at"`     // when it is ended if nothing more comes
	KillFor          *string          `json:"kill_for"`    // and why
	ResumeBy         *time.Time       `json:"resume_by"`   // of a suspended turn: when it goes on without the missing reports
	CostUSD          *float64         `json:"cost_usd"`    // of the attempt so far, as the agent says
}

// StatusCredential is a secret that fails.
type StatusCredential struct {
	Failures      int       `json:"failures"` // cycles in a row
	Since         time.Time `json:"since"`
	Reason        string    `json:"reason"` // of the last
	KeymasterTold bool      `json:"keymaster_told"`
	OperatorTold  bool      `json:"operator_told"`
}

// StatusSchedule compares the crontab line that is wanted with the installed.
type StatusSchedule struct {
	Wanted    *string `json:"wanted"` // the five fields
	Installed *string `json:"installed"`
	Error     *string `json:"error"`
}

// StatusSpend is what turns have cost, as far as it is known, and what may
// still be spent: of the credit, and of the limit of which the least is left.
type StatusSpend struct {
	DayUSD    float64  `json:"day_usd"`
	MonthUSD  float64  `json:"month_usd"`
	CreditUSD *float64 `json:"credit_usd"` // left, below nothing if more was spent; null: none is configured
	LeftUSD   *float64 `json:"left_usd"`   // null: nothing limits it
	Limit     *string  `json:"limit"`      // which limit that is, in words
	Remedy    *string  `json:"remedy"`     // of a dead agent: what revives it
	Unpriced  []string `json:"unpriced"`   // models without a price, counted as the dearest
}

// Status reads the state without a lock and without the network.
func (a *Agent) Status() (Status, error) {
	s, err := a.Store.Read()
	if err != nil {
		return Status{}, err
	}
	st := Status{
		Agent:       a.Handle,
		Phase:       s.Phase,
		PhaseSince:  orNull(s.PhaseSince),
		NextDue:     orNull(s.NextDue),
		LastLook:    orNull(s.LastMailRead),
		Offline:     a.offline(s),
		Halted:      s.Halted(),
		HaltedBy:    HaltedBy(s),
		Inbox:       StatusInbox{Quarantined: s.Quarantined},
		Outbox:      StatusOutbox{Waiting: len(s.Outbox), Undeliverable: s.Undeliverable},
		Credentials: map[string]StatusCredential{},
		Schedule:    a.scheduleStatus(s),
		Asleep:      s.Asleep,
	}
	if s.SleepUntil.After(a.Now()) {
		st.SleepUntil = &s.SleepUntil
	}
	if s.CooldownUntil.After(a.Now()) {
		st.Cooldown = &s.CooldownUntil
	}
	if deadline, ok := s.Deadline(a.Policy); ok {
		st.Deadline = &deadline
	}
	for _, m := range s.Inbox {
		if m.Status == state.Deferred {
			st.Inbox.Deferred++
		} else {
			st.Inbox.Waiting++
		}
	}
	for name, c := range s.Credentials {
		st.Credentials[name] = StatusCredential{
			Failures: c.Failures, Since: c.Since, Reason: c.Reason, KeymasterTold: c.Keymaster.Sent, OperatorTold: c.Operator.Sent,
		}
	}
	a.spendStatus(s, &st)
	st.Turn, err = a.turnStatus(s.Turn)
	return st, err
}

// lookLate is how long after the interval a look at the mail is missed: a poll
// may take its time.
const lookLate = 2 * time.Minute

// offline says that polls are made and the operator's mail was not seen by them
// for longer than an interval: the network, or its server. A login that is
// refused has its own place in the status.
func (a *Agent) offline(s state.State) bool {
	if _, refused := s.Credentials["imap"]; refused || a.Mail == nil || s.NextDue.IsZero() {
		return false
	}
	return s.LastMailRead.IsZero() || s.LastStep.Sub(s.LastMailRead) > s.Interval(a.Policy)+lookLate
}

// HaltedBy names where HALT was set; each is lifted there.
func HaltedBy(s state.State) []string {
	by := []string{}
	if s.HaltedHere {
		by = append(by, "here")
	}
	if s.HaltedMesh {
		by = append(by, "mesh")
	}
	return by
}

func (a *Agent) spendStatus(s state.State, st *Status) {
	now := a.Now()
	st.Tier = s.Tier(a.Policy, now)
	today, month := s.SpentOn(a.Policy, now)
	st.Spend = StatusSpend{DayUSD: today.USD(), MonthUSD: month.USD(), Unpriced: append([]string{}, s.Purse.Unpriced...)}
	if left, known := s.Balance(a.Policy); known {
		usd := left.USD()
		st.Spend.CreditUSD = &usd
	}
	if limit, limited := s.Tightest(a.Policy, now); limited {
		usd := max(0, limit.Left).USD()
		st.Spend.LeftUSD, st.Spend.Limit = &usd, orNull(limit.What())
		if st.Tier == state.TierDead {
			st.Spend.Remedy = orNull(limit.Remedy())
		}
	}
}

func (a *Agent) turnStatus(h state.Head) (StatusTurn, error) {
	t := StatusTurn{Status: h.Status}
	if h.Status == state.HeadIdle {
		return t, nil
	}
	t.ID, t.Epoch, t.Since = orNull(h.TurnID), orNull(h.Epoch), orNull(h.Since)
	if h.Status == state.HeadSuspended {
		open := 0
		for _, w := range h.Waiting {
			if !w.Answered() {
				open++
			}
		}
		t.WaitingToolCount, t.ResumeBy = &open, orNull(h.ResumeBy)
		return t, nil
	}
	dir := a.Store.Path(attemptDir(h.TurnID, h.Epoch))
	held, _, err := turn.Probe(dir)
	if err != nil || !held {
		return t, err // a view without an agent is what a killed runner left
	}
	live, err := turn.ReadLive(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t.Lifecycle, t.State = orNull(live.Lifecycle.String()), orNull(live.State.String())
	t.Tool, t.WaitingToolCount = orNull(live.Tool), &live.WaitingTools
	t.LastOutput, t.KillAt, t.KillFor = orNull(live.LastOutput), orNull(live.KillAt), orNull(live.KillFor)
	t.CostUSD = &live.CostUSD
	return t, nil
}

func (a *Agent) scheduleStatus(s state.State) StatusSchedule {
	st := StatusSchedule{Error: orNull(s.Schedule.Error), Installed: orNull(fields(s.Schedule.Installed))}
	if a.Schedule.Mode != ModeCrontab || s.Schedule.Removed {
		return st
	}
	line, err := a.Job(s).Line()
	if err != nil {
		st.Error = orNull(err.Error())
		return st
	}
	st.Wanted = orNull(fields(line))
	return st
}

// orNull is a pointer to v, or nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
