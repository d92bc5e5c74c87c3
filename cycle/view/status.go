package view

import (
	"errors"
	"io/fs"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Status is the JSON output of `status` (docs/protocol.md, "Status"). A field is
// null, never absent.
type Status struct {
	Agent       string                      `json:"agent"`
	Phase       state.Phase                 `json:"phase"`
	PhaseSince  *time.Time                  `json:"phase_since"`
	NextDue     *time.Time                  `json:"next_due"`
	Deadline    *time.Time                  `json:"deadline"`  // when silence ends the phase
	AckDue      *time.Time                  `json:"ack_due"`   // when the waiting ack is sent, unless the answer comes first
	LastLook    *time.Time                  `json:"last_look"` // the last time the operator's mail could be scanned
	Offline     bool                        `json:"offline"`   // polls run, but cannot scan it
	Halted      bool                        `json:"halted"`
	HaltedBy    []string                    `json:"halted_by"` // where it was set: "here", "mesh"
	Moved       *StatusMoved                `json:"moved"`     // null: the agent works here
	Restored    *StatusRestored             `json:"restored"`  // null: no restore of the last month
	Tier        state.Tier                  `json:"tier"`
	Inbox       StatusInbox                 `json:"inbox"`
	Outbox      StatusOutbox                `json:"outbox"`
	Lost        []StatusLost                `json:"lost"`        // bounced mails, the newest at the end
	LastMail    *StatusMail                 `json:"last_mail"`   // of the operator; null: unknown
	LastAnswer  *StatusAnswer               `json:"last_answer"` // to the operator; null: unknown
	Questions   []StatusQuestion            `json:"questions"`   // open ones, the oldest first
	NextWakeup  *Wakeup                     `json:"next_wakeup"` // the next wakeup of the agent
	Turn        StatusTurn                  `json:"turn"`
	Asleep      bool                        `json:"asleep"`      // the last turn left no work
	SleepUntil  *time.Time                  `json:"sleep_until"` // the agent asked to be left alone until then
	Self        StatusSelf                  `json:"self"`
	Cooldown    *time.Time                  `json:"cooldown_until"` // no turns until then: too many failed in a row
	Outages     []StatusOutage              `json:"outages"`        // of the backends, in the order of trying
	Credentials map[string]StatusCredential `json:"credentials"`
	Sending     *StatusSending              `json:"sending"`    // null: mail can be sent, as far as is known
	LastNudge   *StatusNudge                `json:"last_nudge"` // null: no nudge yet
	Hooks       map[string]StatusHook       `json:"hooks"`      // each that is configured
	Prompts     []StatusPrompt              `json:"prompts"`    // of the clock, in the order of the configuration
	Schedule    StatusSchedule              `json:"schedule"`
	Spend       StatusSpend                 `json:"spend"`
	Obstacles   []string                    `json:"obstacles"` // faults of files in the state directory
	Mesh        *string                     `json:"mesh"`      // the address of the mesh; null: no mesh is configured

	TwoMachines *TwoMachines `json:"two_machines"` // null: no other machine works as this agent
}

// TwoMachines is the newest sign of another machine that works as this agent.
type TwoMachines struct {
	Host  *string   `json:"host"`
	Place *string   `json:"place"`
	At    time.Time `json:"at"`
}

// TwoMachinesOf returns the sign of another machine within a day, or nil.
func TwoMachinesOf(s state.State, now time.Time) *TwoMachines {
	sign, two := s.TwoMachines(now)
	if !two {
		return nil
	}
	return &TwoMachines{Host: OrNull(sign.Host), Place: OrNull(sign.Place), At: sign.At}
}

// Other names the other machine.
func (t TwoMachines) Other() string {
	var s state.Sign
	if t.Host != nil {
		s.Host = *t.Host
	}
	if t.Place != nil {
		s.Place = *t.Place
	}
	return s.Other()
}

// StatusMoved says where the agent was moved.
type StatusMoved struct {
	To      string    `json:"to"` // the host
	At      time.Time `json:"at"`
	Archive *string   `json:"archive"`
}

// StatusRestored is the last restore from a backup.
type StatusRestored struct {
	At      time.Time  `json:"at"`
	Made    *time.Time `json:"made"`    // the backup
	From    string     `json:"from"`    // the file of the backup
	Settled int        `json:"settled"` // messages that were answered since the backup
	Run     int        `json:"run"`     // mails since the backup that were not answered, and ran or run
	Unknown int        `json:"unknown"` // mails that went to quarantine, because they may have run
	Reading bool       `json:"reading"` // the mailbox is still being compared
}

func movedStatus(s state.State) *StatusMoved {
	if s.Moved == nil {
		return nil
	}
	return &StatusMoved{To: s.Moved.To, At: s.Moved.At, Archive: OrNull(s.Moved.Archive)}
}

func restoredStatus(s state.State) *StatusRestored {
	r := s.Restore
	if r == nil {
		return nil
	}
	return &StatusRestored{At: r.At, Made: OrNull(r.Made), From: r.From, Settled: r.Settled, Run: r.Run, Unknown: r.Unknown, Reading: !r.Over}
}

// StatusInbox counts messages.
type StatusInbox struct {
	Waiting     int `json:"waiting"`
	Files       int `json:"files"` // messages of programs in nudges/, which no poll has taken yet
	Deferred    int `json:"deferred"`
	Held        int `json:"held"` // by a restore, until a person decides
	Quarantined int `json:"quarantined"`

	// RefusedSigned counts the mails in quarantine whose sender is proven but whose text is
	// doubtful: the operator has to answer the question about each.
	RefusedSigned int `json:"refused_signed"`

	Withheld *StatusWithheld `json:"withheld"` // null: the server hands out every mail
	Uncalled *StatusUncalled `json:"uncalled"` // null: no such mail in the last week

	Deferrals []StatusDeferral `json:"deferrals"` // why Deferred messages wait, the next first
}

// StatusWithheld counts the mails that the server does not hand out. The next fetch is at Next.
type StatusWithheld struct {
	Count int       `json:"count"`
	Next  time.Time `json:"next"`
}

func withheldStatus(s state.State) *StatusWithheld {
	var w StatusWithheld
	for _, f := range s.FailingMails() {
		if w.Count++; w.Count == 1 || f.Next.Before(w.Next) {
			w.Next = f.Next
		}
	}
	return OrNull(w)
}

// StatusUncalled counts the mails of the operator that came to the agent's address and
// called no agent.
type StatusUncalled struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// uncalledFor is how long status shows the last such mail.
const uncalledFor = 7 * 24 * time.Hour

func uncalledStatus(u state.Uncalled, now time.Time) *StatusUncalled {
	if now.Sub(u.Last) >= uncalledFor {
		return nil
	}
	return OrNull(StatusUncalled(u))
}

// StatusDeferral describes messages that wait for a time for the same reason. The first runs at
// Next, and the last at Last.
type StatusDeferral struct {
	Reason string    `json:"reason"`
	Count  int       `json:"count"`
	Next   time.Time `json:"next"`
	Last   time.Time `json:"last"`
}

// StatusSelf shows the wakeups of the agent, and how many turns of its own it had since its
// operator last spoke.
type StatusSelf struct {
	Wakeups []Wakeup `json:"wakeups"` // the next first
	Turns   int      `json:"turns"`
	Limit   int      `json:"limit"`
}

// StatusLost is a mail of ours that bounced.
type StatusLost struct {
	ID     string    `json:"id"`
	To     string    `json:"to"`
	At     time.Time `json:"at"` // when it bounced
	Reason string    `json:"reason"`
}

// StatusTurn is the active turn, or the last one while its agent lingers after its answer. The
// fields from Lifecycle on are set while an agent works on the turn, whichever process runs it.
// Once the agent's process has ended, Lifecycle and Reason show that, as far as its runner has
// recorded it. WaitingToolCount counts the tools that the agent waits for, or the open
// questions of a suspended turn.
type StatusTurn struct {
	Status           state.HeadStatus `json:"status"`
	ID               *string          `json:"id"`
	Epoch            *uint64          `json:"epoch"`
	Lifecycle        *string          `json:"lifecycle"`
	Reason           *string          `json:"reason"` // why the agent is killed: "clean exit", "timeout: …"
	State            *string          `json:"state"`
	Tool             *string          `json:"tool"`
	WaitingToolCount *int             `json:"waiting_tool_count"`
	Since            *time.Time       `json:"since"`       // of this status
	LastOutput       *time.Time       `json:"last_output"` // of the agent
	KillAt           *time.Time       `json:"kill_at"`     // when it is killed if it stays silent
	KillFor          *string          `json:"kill_for"`    // the reason of KillAt
	ResumeBy         *time.Time       `json:"resume_by"`   // when a suspended turn goes on without the missing reports
	CostUSD          *float64         `json:"cost_usd"`    // of the attempt so far, as the agent reports
	Trace            *string          `json:"trace_id"`    // of the chain that the turn belongs to
	Waits            []StatusWait     `json:"waits"`       // the questions of a suspended turn
}

// StatusWait is one question to another agent, or work that the turn has started, whose To is
// "tool NAME" or "submit". Status is the outcome of the other agent's turn, "timeout" if the
// report is late, and null until a report comes.
type StatusWait struct {
	ID       string         `json:"tool_call_id"`
	To       string         `json:"to"`
	Answered bool           `json:"answered"`
	Status   *state.Outcome `json:"status"`
	Until    *time.Time     `json:"until"` // its deadline
}

// StatusCredential is a failing credential.
type StatusCredential struct {
	Failures      int       `json:"failures"` // cycles in a row
	Since         time.Time `json:"since"`
	Reason        string    `json:"reason"` // of the last failure
	KeymasterTold bool      `json:"keymaster_told"`
	OperatorTold  bool      `json:"operator_told"`
}

// StatusOutage is a backend that cannot be used until a time.
type StatusOutage struct {
	Backend string           `json:"backend"` // "agent:claude", "agent:claude:low", "agent:codex:1"
	Name    string           `json:"name"`    // for people
	Kind    state.OutageKind `json:"kind"`
	Since   time.Time        `json:"since"`
	Until   time.Time        `json:"until"`
	Reason  string           `json:"reason"`
	Told    bool             `json:"operator_told"`
}

func outages(s state.State, p state.Policy, now time.Time) []StatusOutage {
	out := []StatusOutage{}
	for _, backend := range p.BackendNames() {
		if o, isOut := s.OutageOf(backend, now); isOut {
			out = append(out, StatusOutage{
				Backend: backend, Name: state.BackendName(backend), Kind: o.Kind, Since: o.Since, Until: o.Until, Reason: o.Reason, Told: o.Told,
			})
		}
	}
	return out
}

// StatusSchedule compares the wanted crontab lines with the installed ones.
type StatusSchedule struct {
	Wanted    *string `json:"wanted"` // the five fields
	Installed *string `json:"installed"`

	// Alarm is the minute at which a row makes a poll due before NextDue, and AlarmReason names
	// the work that is due then. The other two are the fields of the alarm line.
	Alarm          *time.Time `json:"alarm"`
	AlarmReason    *string    `json:"alarm_reason"`
	AlarmWanted    *string    `json:"alarm_wanted"`
	AlarmInstalled *string    `json:"alarm_installed"`

	Error *string `json:"error"`
}

// StatusSpend holds the known cost of turns, and the money that may still be spent: of the
// credit, and of the limit that is closest.
type StatusSpend struct {
	DayUSD    float64  `json:"day_usd"`
	MonthUSD  float64  `json:"month_usd"`
	CreditUSD *float64 `json:"credit_usd"` // left, negative if overspent; null: no credit is configured
	LeftUSD   *float64 `json:"left_usd"`   // null: no limit
	Limit     *string  `json:"limit"`      // that limit, in words
	Remedy    *string  `json:"remedy"`     // the way to revive a dead agent
	Savings   []string `json:"savings"`    // the measures while money is short, in words
	Unpriced  []string `json:"unpriced"`   // models without a price, counted at the highest one
	Uncounted []string `json:"uncounted"`  // backends without a reported cost or tokens: the budget cannot count their turns
}

// Status reads the state without a lock and without the network.
func (r Reader) Status() (Status, error) {
	s, err := r.Store.Read()
	if err != nil {
		return Status{}, err
	}
	return r.StatusOf(s), nil
}

// refusedSigned counts the signed mails in quarantine, each once: others may have sent copies.
// An unreadable folder counts as 0, because the obstacles name it.
func (r Reader) refusedSigned(s state.State) int {
	if s.Quarantined == 0 {
		return 0
	}
	items, _ := r.Quarantine.Items()
	refused := map[string]bool{}
	for _, i := range items {
		if _, accepted := s.Seen[i.Digest]; i.Doubtful && !accepted {
			refused[i.Digest] = true
		}
	}
	return len(refused)
}

// StatusOf returns the status of a state that was read before, as of now. It also reads the
// progress of a working agent and the faults of files.
func (r Reader) StatusOf(s state.State) Status {
	now := r.Now()
	st := Status{
		Agent:       r.Handle,
		Phase:       s.Phase,
		PhaseSince:  OrNull(s.PhaseSince),
		NextDue:     OrNull(s.NextDue),
		AckDue:      OrNull(s.AckWaits.Until),
		LastLook:    OrNull(s.LastMailRead),
		Offline:     offline(s, *r.Policy, r.ReadsMail),
		Halted:      s.Halted(),
		HaltedBy:    HaltedBy(s),
		Moved:       movedStatus(s),
		Restored:    restoredStatus(s),
		Inbox:       StatusInbox{Quarantined: s.Quarantined, RefusedSigned: r.refusedSigned(s), Deferrals: []StatusDeferral{}},
		Outbox:      outboxStatus(s, now),
		Outages:     outages(s, *r.Policy, now),
		Credentials: map[string]StatusCredential{},
		Sending:     SendingStatus(s),
		LastNudge:   OrNull(StatusNudge(s.LastRing)),
		Hooks:       hookStatus(s, *r.Policy),
		Prompts:     PromptStatus(s, *r.Policy, now),
		Schedule:    r.Schedule(s),
		Asleep:      s.Asleep,
		Lost:        []StatusLost{},
		LastMail:    mailStatus(s.LastMail),
		LastAnswer:  answerStatus(s, now),
		Questions:   questions(s, r.Policy.Operator, r.Quarantine, now),
	}
	st.Inbox.Uncalled, st.Inbox.Withheld = uncalledStatus(s.Uncalled, now), withheldStatus(s)
	st.Self = StatusSelf{
		Wakeups: Wakeups(s, *r.Policy, now, func(state.Message) bool { return true }),
		Turns:   s.Streak.Turns, Limit: r.Policy.SelfTurns,
	}
	if len(st.Self.Wakeups) > 0 {
		st.NextWakeup = &st.Self.Wakeups[0]
	}
	for _, m := range s.Lost {
		st.Lost = append(st.Lost, StatusLost{ID: m.ID, To: m.To, At: m.At, Reason: m.Reason})
	}
	if s.SleepUntil.After(now) {
		st.SleepUntil = &s.SleepUntil
	}
	if s.CooldownUntil.After(now) {
		st.Cooldown = &s.CooldownUntil
	}
	if deadline, ok := s.Deadline(*r.Policy); ok {
		st.Deadline = &deadline
	}
	for _, m := range s.Inbox {
		if m.Status == state.Deferred && m.Source == state.Self {
			continue // in Self
		}
		switch m = deferredByOutage(s, *r.Policy, m, now); {
		case m.Held:
			st.Inbox.Held++
		case m.Status == state.Deferred:
			st.Inbox.deferred(m)
		default:
			st.Inbox.Waiting++
		}
	}
	for name, c := range s.Credentials {
		st.Credentials[name] = StatusCredential{
			Failures: c.Failures, Since: c.Since, Reason: c.Reason, KeymasterTold: c.Keymaster.Sent, OperatorTold: c.Operator.Sent || c.ToldByHook,
		}
	}
	st.Tier, st.Spend = s.Tier(*r.Policy, now), spendStatus(s, *r.Policy, now)
	st.Spend.Savings = savings(r.Turn, st.Tier)
	st.Mesh, st.TwoMachines = OrNull(r.Mesh), TwoMachinesOf(s, now)
	st.Obstacles = []string{}
	for _, err := range r.Store.Obstacles(s) {
		st.Obstacles = append(st.Obstacles, err.Error())
	}
	list, _ := r.Store.Nudges(s) // the next poll reports the error
	st.Inbox.Files = list.Messages()
	var err error
	if st.Turn, err = turnStatus(r.Store, s); err != nil { // the rest is shown
		st.Obstacles = append(st.Obstacles, err.Error())
	}
	return st
}

// deferredByOutage returns a message for display. A message that could have its turn if a
// backend worked waits until one of its backends is tried again.
func deferredByOutage(s state.State, p state.Policy, m state.Message, now time.Time) state.Message {
	if name, o, out := s.AllOut(p, now); out && m.Status == state.Queued && !m.Damaged && !m.Held {
		m.Status, m.Reason, m.NextRetryAt = state.Deferred, o.Sentence(name), o.Until
	}
	return m
}

// deferred counts a deferred message.
func (i *StatusInbox) deferred(m state.Message) {
	i.Deferred++
	for n := range i.Deferrals {
		if d := &i.Deferrals[n]; d.Reason == m.Reason {
			d.Count++
			d.Next, d.Last = earlier(d.Next, m.NextRetryAt), Later(d.Last, m.NextRetryAt)
			return
		}
	}
	i.Deferrals = append(i.Deferrals, StatusDeferral{Reason: m.Reason, Count: 1, Next: m.NextRetryAt, Last: m.NextRetryAt})
}

// earlier returns the earlier of two times.
func earlier(t, u time.Time) time.Time {
	if u.Before(t) {
		return u
	}
	return t
}

// Later returns the later of two times.
func Later(t, u time.Time) time.Time {
	if u.After(t) {
		return u
	}
	return t
}

// scanLate is how long after the interval a scan of the mail may come, because a poll may take
// time.
const scanLate = 2 * time.Minute

// offline reports whether polls run but have not scanned the operator's mail for longer than an
// interval, because of the network or the server. A denied login has its own place in the
// status.
func offline(s state.State, p state.Policy, hasMail bool) bool {
	if _, denied := s.Credentials[state.CredentialIMAP]; denied || !hasMail || s.NextDue.IsZero() {
		return false
	}
	return s.LastMailRead.IsZero() || s.LastStep.Sub(s.LastMailRead) > s.Interval(p)+scanLate
}

// HaltedBy returns where HALT was set, "here" or "mesh". Each HALT is lifted where it was set.
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

func spendStatus(s state.State, p state.Policy, now time.Time) StatusSpend {
	today, month := s.SpentOn(p, now)
	st := StatusSpend{DayUSD: today.USD(), MonthUSD: month.USD(), Unpriced: append([]string{}, s.Purse.Unpriced...), Uncounted: append([]string{}, s.Uncounted(p)...)}
	if left, known := s.Balance(p); known {
		usd := left.USD()
		st.CreditUSD = &usd
	}
	if limit, limited := s.Tightest(p, now); limited {
		usd := max(0, limit.Left).USD()
		st.LeftUSD, st.Limit = &usd, OrNull(limit.What())
		if s.Tier(p, now) == state.TierDead {
			st.Remedy = OrNull(limit.Remedy())
		}
	}
	return st
}

func turnStatus(st *store.Store, s state.State) (StatusTurn, error) {
	h := s.Turn
	t := StatusTurn{Status: h.Status, Waits: []StatusWait{}}
	if !h.Stoppable() {
		return t, nil
	}
	t.ID, t.Epoch, t.Since = OrNull(h.TurnID), OrNull(h.Epoch), OrNull(h.Since)
	if msg, ok := s.TurnMessage(); ok {
		t.Trace = OrNull(msg.Trace)
	}
	if h.Status == state.HeadSuspended {
		open := 0
		for _, w := range h.Waiting {
			if !w.Answered() {
				open++
			}
			t.Waits = append(t.Waits, StatusWait{ID: w.ID, To: w.To, Answered: w.Answered(), Status: OrNull(w.Status), Until: OrNull(w.By)})
		}
		t.WaitingToolCount, t.ResumeBy = &open, OrNull(h.ResumeBy)
	}
	dir := st.Path(store.AttemptDir(h.TurnID, h.Epoch))
	held, _, err := turn.Probe(dir)
	if err != nil {
		return t, err
	}
	live, err := turn.ReadLive(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		return t, err
	case live.Lifecycle == turn.LifecycleKilled:
		t.Lifecycle, t.Reason = OrNull(live.Lifecycle.String()), OrNull(live.Reason)
	}
	if !held || h.Status == state.HeadSuspended {
		return t, nil // without an agent, the rest is left over from a killed runner
	}
	t.Lifecycle, t.State = OrNull(live.Lifecycle.String()), OrNull(live.State.String())
	t.Tool, t.WaitingToolCount = OrNull(live.Tool), &live.WaitingTools
	t.LastOutput, t.KillAt, t.KillFor = OrNull(live.LastOutput), OrNull(live.KillAt), OrNull(live.KillFor)
	t.CostUSD = &live.CostUSD
	return t, nil
}

// OrNull returns a pointer to v, or nil for the zero value.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// IsShort reports whether turns run as cheaply as they can in a tier.
func IsShort(t state.Tier) bool { return t == state.TierLow || t == state.TierCritical }

// savings returns in words the measures that save money in a tier, apart from the choice of
// messages. t may be nil.
func savings(t *turn.Config, tier state.Tier) []string {
	saved := []string{}
	if t == nil || !IsShort(tier) {
		return saved
	}
	if len(t.Low.Command) > 0 {
		saved = append(saved, "low_command used")
	}
	if len(t.Low.Args) > 0 {
		saved = append(saved, "low_args added")
	}
	if len(t.Low.Options) > 0 {
		saved = append(saved, "low_options used")
	}
	if t.Low.Model != "" {
		saved = append(saved, "low_model used")
	}
	if t.Runner == turn.API {
		saved = append(saved, "half of max_calls, max_tools and max_output")
	}
	return append(saved, "no turns planned by the agent")
}
