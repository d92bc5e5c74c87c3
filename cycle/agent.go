package cycle

import (
	"context"
	"sync"
	"text/template"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle/heartbeat"
	"agentstateloop/cycle/hook"
	"agentstateloop/internal/secret"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Agent is one configured agent: its wiring, and as methods what can be done with
// it. Package commands sets the fields from agent.toml; they do not change
// afterwards. wiring.go makes the parts that do the work.
type Agent struct {
	Handle string
	Config string // absolute path of agent.toml

	Store    *store.Store
	Policy   state.Policy
	Mail     *Mail // nil: no mail is configured
	Mesh     *Mesh // nil: no mesh is configured
	Schedule Schedule
	Turn     *turn.Config // nil: runner "none", messages wait for `inbox`
	Backends []Backend    // that run turns while Turn has an outage, in the order of trying
	Replies  Replies
	Prices   turn.Prices  // of models, for agents that report tokens and no cost
	Prompts  string       // folder of the user's prompt templates; "": none
	Recall   int          // bytes of past exchanges in the prompt of a new session; 0: DefaultRecall
	Window   int64        // tokens that a session can hold; 0: as the agent reports, or as its runner is known to have
	Summary  *turn.Config // makes summaries; nil: the agent itself does
	Rights   Rights
	Kinds    Kinds // with runner "acp"

	Hooks     []hook.Hook
	Heartbeat *heartbeat.Monitor // nil: no monitor is asked

	Prompted []ClockPrompt // the prompts of the clock; their times are in Policy

	Secrets *secret.Known // kept out of every reason and of the log; nil: none are known
	Keep    time.Duration // turns, messages and quarantine older than this are pruned

	// Self is the argv that starts this program again with this agent's
	// configuration, a subcommand to be appended.
	Self []string

	// CheckEvery is how often a process reads the state while it waits for a turn; 0: 500
	// ms. A poll that lingers looks half as often.
	CheckEvery time.Duration

	// Now is the clock; time.Now outside demo and simulator.
	Now func() time.Time

	// Explain returns the hint, the word and the exit code with which a command reports
	// an error, for the commands of an agent in a box; nil: they have none of them.
	Explain func(error) (hint, kind string, exit int)

	// RunTurn, if set, replaces Turn.Run and keeps its promises. The simulator's
	// agents are not processes.
	RunTurn func(context.Context, turn.Attempt) (turn.Result, error)

	// CallHook, if set, replaces Hook.Deliver and keeps its promises. Hooks are then
	// called at the end of a poll, one after another.
	CallHook func(context.Context, hook.Hook, hook.Call) error

	// AskPrompt, if set, replaces the program of a prompt of the clock. It returns why there
	// is nothing to do, or "". Programs are then asked one after another.
	AskPrompt func(context.Context, ClockPrompt) (nothing string, err error)

	// Accessed atomically: 1 if this process has committed something for a hook; that a
	// turn failed.
	announced, turnFailed uint32
}

// Mail is how mail reaches the agent and leaves it.
type Mail struct {
	Mailbox mail.Mailbox
	SMTP    mail.Server
	Filter  trust.Filter
	Address string // ours
}

// Mesh configures the agent's connection to a mesh.
type Mesh struct {
	Carrier Carrier
	Handle  string   // of this agent
	Peers   []string // whose messages cause turns
	Paces   bool     // the mesh keeps no pace, so we do
	Open    bool     // trust.mesh = "open": unproven senders are believed

	announcing sync.WaitGroup // of what is being announced
}

// Schedule configures what starts the agent's polls (docs/design.md, "The crontab").
type Schedule struct {
	Mode   string // ModeCrontab, ModeFixed or ModeNone
	Table  cron.Table
	Binary string // absolute; what the line runs

	// Linger is how long the polls of an engaged agent stay on; 0: they do not.
	Linger time.Duration
}

// Rights are arguments that are added to the agent's command, depending on what
// caused the turn ([turn.permissions]). A peer's message may do less than the
// operator's.
type Rights struct {
	Operator, Peer, Event []string
	Task                  []string // of prompts of the clock, and of what the agent planned in their turns
	Self                  []string // of what the agent planned in its operator's conversation
	Summary               []string // of a summary, which no message causes
}

// The schedule modes.
const (
	ModeCrontab = "crontab" // we rewrite our line
	ModeFixed   = "fixed"   // the user keeps a one-minute `poll --if-due` line
	ModeNone    = "none"    // something else polls
)

// Replies are the templates of our own mails, executed with a ReplyData. nil
// switches a mail off.
type Replies struct {
	Ack, QuietPrep, QuietActive *template.Template

	Name string // in From of our mail; "": the handle
	Sent string // the folder for copies of our mail; "": none

	// HTML adds an HTML part to the answer of a turn, if that is formatted.
	HTML bool
}

// ReplyData holds the values that a reply template can name.
type ReplyData struct {
	Handle   string
	Callsign string // "@" + Handle
	Phase    string // the phase that is being left or entered
}
