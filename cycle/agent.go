package cycle

import (
	"context"
	"text/template"
	"time"

	"agentstateloop/cron"
	"agentstateloop/internal/secret"
	"agentstateloop/mail"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Agent is one configured agent and everything it is wired to. Package
// commands fills it from agent.toml; nothing in it changes afterwards.
type Agent struct {
	Handle string
	Config string // absolute path of agent.toml

	Store    *store.Store
	Policy   state.Policy
	Mail     *Mail // nil: no mail is configured
	Mesh     *Mesh // nil: no mesh is configured
	Schedule Schedule
	Turn     *turn.Config // nil: runner "none", messages wait for `inbox`
	Replies  Replies
	Prices   turn.Prices  // of models, for agents that tell tokens and no cost
	Prompts  string       // folder of the user's prompt templates; "" = none
	Recall   int          // bytes of the past that a session which begins is told; 0: DefaultRecall
	Window   int64        // tokens that a session can hold; 0: as the agent says, or its runner has it
	Summary  *turn.Config // makes summaries; nil: the agent itself does
	Rights   Rights

	// PeersRemember lets a turn that another agent has caused change the working
	// memory.
	PeersRemember bool

	Secrets *secret.Known // kept out of every reason and of the log; nil: none are known
	Keep    time.Duration // turns, messages and quarantine older than this are pruned

	// Self is the argv that starts this program again with this agent's
	// configuration, a subcommand to be appended.
	Self []string

	// Now is the clock; time.Now outside demo and simulator.
	Now func() time.Time

	// RunTurn, where set, stands in for Turn.Run and keeps its promises: the
	// simulator's agents are no processes.
	RunTurn func(context.Context, turn.Attempt) (turn.Result, error)
}

// Mail is how the agent is reached by mail and answers.
type Mail struct {
	Mailbox mail.Mailbox
	SMTP    mail.Server
	Filter  mail.Filter
	Address string // ours
}

// Mesh is how the agent is reached over localMesh.
type Mesh struct {
	Client *mesh.Client
	Peers  []string // whose messages cause turns
	Open   bool     // trust.mesh = "open": an unproven sender is believed
}

// Schedule is how the agent's polls are fired (DESIGN 9).
type Schedule struct {
	Mode   string // ModeCrontab, ModeFixed or ModeNone
	Table  cron.Table
	Binary string // absolute; what the line runs

	// Linger is how long the polls of an engaged agent stay on; 0: not at all.
	Linger time.Duration
}

// Rights are arguments added to the agent's command by what caused the turn
// ([turn.permissions]), so that a peer's message may do less than the
// operator's.
type Rights struct {
	Operator, Peer, Task []string
}

// The schedule modes.
const (
	ModeCrontab = "crontab" // we rewrite our line
	ModeFixed   = "fixed"   // the user keeps a one-minute `poll --if-due` line
	ModeNone    = "none"    // something else polls
)

// Replies are the texts of our own mails; nil switches one off. Each is
// executed with a ReplyData.
type Replies struct {
	Ack, QuietPrep, QuietActive *template.Template
}

// ReplyData is what a reply template can name.
type ReplyData struct {
	Handle   string
	Callsign string // "@" + Handle
	Phase    string // the phase that is being left or entered
}
