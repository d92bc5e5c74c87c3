package cycle

import (
	"context"
	"sync"
	"text/template"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cron/timer"
	"agentstateloop/cycle/heartbeat"
	"agentstateloop/cycle/hook"
	"agentstateloop/cycle/view"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/secret"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Agent is one configured agent: its wiring, and its operations as methods. Package commands
// sets the fields from agent.toml; they do not change afterwards. wiring.go makes the parts
// that do the work.
type Agent struct {
	Handle string
	Config string // absolute path of agent.toml

	Store    *store.Store
	Seat     *seat.Seat // of an agent with several hosts, and the Arbiter of Store; nil: this host alone acts
	Policy   state.Policy
	Mail     *Mail // nil: no mail is configured
	Mesh     *Mesh // nil: no mesh is configured
	Schedule Schedule
	Turn     *turn.Config // nil: runner "none"; messages wait for `inbox`
	Backends []Backend    // run turns while Turn has an outage; tried in this order
	Replies  Replies
	Prices   turn.Prices  // of models, for agents that report tokens and no cost
	Prompts  string       // folder of the user's prompt templates, or ""
	Recall   int          // bytes of past exchanges in the prompt of a new session; 0: DefaultRecall
	Window   int64        // tokens that a session can hold; 0: as the agent reports, or the known size for its runner
	Summary  *turn.Config // makes summaries; nil: the agent itself does
	Rights   Rights
	Kinds    Kinds // used with runner "acp"

	Page string // what the page of `listen` may do with it: PageAct, PageRead or PageOff; "": PageAct

	Hooks     []hook.Hook
	Heartbeat *heartbeat.Monitor // nil: no monitor is configured

	ClockPrompts []ClockPrompt // prompts of the clock; their times are in Policy

	Secrets *secret.Known // kept out of every reason and of the log; nil: no secrets are known
	Keep    time.Duration // turns, messages and quarantine older than this are pruned

	// Self is the argv that starts this program with this agent's configuration. Callers append
	// a subcommand.
	Self []string

	// CheckEvery is how often a process reads the state while it waits for a turn; 0: 500 ms. A
	// lingering poll reads it half as often.
	CheckEvery time.Duration

	// Now is the clock; time.Now outside demo and simulator.
	Now func() time.Time

	// Step, if set, replaces state.Step under the same contract. Tests record its arguments.
	Step state.StepFunc

	// Explain returns the hint, the word and the exit code with which a command reports an
	// error. Relayed commands of a sandboxed agent use it; nil: they report the error alone.
	Explain func(error) (hint, kind string, exit int)

	// RunTurn, if set, replaces Turn.Run under the same contract. The simulator's agents are
	// not processes.
	RunTurn func(context.Context, turn.Attempt) (turn.Result, error)

	// EndTurn, if set, ends the agent of the attempt in dir in place of turn.End, and with a grace of
	// 0 in place of turn.Kill.
	EndTurn func(ctx context.Context, dir string, grace time.Duration) (abandoned bool, err error)

	// CallHook, if set, replaces Hook.Deliver under the same contract. The poll then calls the
	// hooks at its end, one after another.
	CallHook func(context.Context, hook.Hook, hook.Call) error

	// AskPrompt, if set, replaces the program of a clock prompt. It returns the reason why
	// the prompt can be skipped, or "". Programs are then asked one after another.
	AskPrompt func(context.Context, ClockPrompt) (nothing string, err error)

	// Accessed atomically. announced is 1 if this process has committed an event for a hook,
	// turnFailed if it has committed a failed turn.
	announced, turnFailed uint32
}

// The values of Agent.Page.
const (
	PageAct  = "act"  // the page shows the agent and takes orders
	PageRead = "read" // it only shows the agent
	PageOff  = "off"  // it does not show the agent
)

// Mail configures how the agent receives and sends mail.
type Mail struct {
	Mailbox mail.Mailbox
	SMTP    mail.Server
	Filter  trust.Filter
	Address string // the agent's own
}

// Mesh configures the agent's connection to a mesh.
type Mesh struct {
	Carrier Carrier
	Handle  string   // of this agent
	Peers   []string // agents whose messages cause turns
	Paces   bool     // the mesh has no rate limit, so the agent limits its intake
	Open    bool     // trust.mesh = "open": unproven senders are believed

	announcing sync.WaitGroup // counts pending announcements
}

// Schedule configures what starts the agent's polls (docs/protocol.md, "The crontab").
type Schedule struct {
	Mode   string // one of the modes below
	Table  cron.Table
	Binary string // absolute path of the program that the line or the timer runs
	Home   string // home directory of the user, for the units of a timer

	// EveryMinute is set if cron polls each minute in every phase, because the polls renew a lease.
	EveryMinute bool

	// Linger is how long the polls of an engaged agent stay on; 0: they end at once.
	Linger time.Duration
}

// Rights are arguments that are added to the agent's command, by the cause of the turn
// ([turn.permissions]). A peer's message may have fewer rights than the operator's.
type Rights struct {
	Operator, Peer, Event []string
	Task                  []string // for prompts of the clock, and for turns planned in their turns
	Self                  []string // for turns that the agent planned in its operator's conversation
	Summary               []string // for summaries, which no message causes
}

// The schedule modes.
const (
	ModeCrontab = "crontab"     // we rewrite our line
	ModeSystemd = timer.Systemd // a timer of the user's systemd polls each minute
	ModeLaunchd = timer.Launchd // a launchd agent polls each minute
	ModeFixed   = "fixed"       // the user keeps a one-minute `poll --if-due` line
	ModeNone    = "none"        // something else polls
)

// Modes returns all schedule modes.
func Modes() []string { return []string{ModeCrontab, ModeSystemd, ModeLaunchd, ModeFixed, ModeNone} }

// Starter returns what starts polls in a mode, in words.
func Starter(mode string) string {
	switch mode {
	case ModeNone:
		return "the program that runs the polls still"
	case ModeSystemd, ModeLaunchd:
		return "its timer"
	}
	return "cron"
}

// HasTimer reports whether a timer of ours polls, which never changes with the phase.
func (s Schedule) HasTimer() bool { return HasTimer(s.Mode) }

// HasTimer reports whether a timer starts the polls in that mode of [schedule].
func HasTimer(mode string) bool { return mode == ModeSystemd || mode == ModeLaunchd }

// Replies are the templates of our own mails, executed with a ReplyData. A nil template
// switches its mail off.
type Replies struct {
	Ack, QuietPrep, QuietActive *template.Template

	Name string // the name in From of our mail; "": the handle
	Sent string // the folder for copies of our mail; "": no copies

	// HTML adds an HTML part to the answer of a turn if the answer is formatted.
	HTML bool
}

// ReplyData holds the values that a reply template can use.
type ReplyData struct {
	Handle   string
	Callsign string // "@" + Handle
	Phase    string // the phase that is being left or entered
}

// View returns what reads the agent for people and programs.
func (a *Agent) View() view.Reader {
	schedule := a.crontab().status
	if a.Schedule.HasTimer() {
		schedule = a.timers().status
	}
	r := view.Reader{
		Handle: a.Handle, Store: a.Store, Policy: &a.Policy, Now: a.Now, Turn: a.Turn, ReadsMail: a.Mail != nil,
		ProvesMail: a.Mail != nil && a.Mail.Filter.Require != trust.RequireFrom, Unscheduled: a.Schedule.Mode == ModeNone,
		Quarantine: a.quarantine(), CheckEvery: checkInterval(a), Schedule: schedule,
	}
	if a.Mesh != nil {
		r.Mesh = a.Mesh.Carrier.Address()
	}
	if a.Seat != nil {
		r.Fleet = a.core().fleetStatus
	}
	return r
}

// fleetStatus returns what this host knows about the seat. It uses no network.
func (c core) fleetStatus() *view.StatusFleet {
	f := &view.StatusFleet{Host: c.seat.Host, Auto: c.seat.Auto}
	v, err := c.seat.View()
	if err != nil {
		text := err.Error()
		f.Trouble = &text
		return f
	}
	f.Acts, f.CutOff, f.Holder, f.To, f.Term, f.Trouble = v.Here, v.CutOff, view.OrNull(v.Holder), view.OrNull(v.To), v.Term, view.OrNull(v.Text)
	// Distances on the boot clock, as times for people. Rounded, they stay the same.
	at := func(d time.Duration) *time.Time { return view.OrNull(c.now().Add(d).Round(time.Second).UTC()) }
	if v.Known {
		f.SeenAt = at(-v.Ago)
	}
	if v.Known && v.Here {
		f.LeaseEnd = at(v.Left)
	}
	return f
}
