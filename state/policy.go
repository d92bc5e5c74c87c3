package state

import "time"

// Policy holds the settings of the machine (docs/protocol.md, "Configuration"). Step reads only the
// policy, the state, the events and the time.
type Policy struct {
	IdleInterval    time.Duration // poll interval in IDLE
	EngagedInterval time.Duration // in PREP and ACTIVE
	PrepTimeout     time.Duration // silence that ends PREP
	ActiveTimeout   time.Duration // silence that ends ACTIVE
	Cooldown        time.Duration // after five failed turns in a row
	Location        *time.Location

	Fleet     bool     // the agent has several hosts, so others are no sign of a copy
	HasMail   bool     // the operator can be reached by mail and reach us
	HasMesh   bool     // a localMesh is configured
	PacesMesh bool     // that mesh keeps no pace, so we do
	Operator  string   // first operator address: receives ack, quiet and notices
	Others    []string // further operator addresses
	Keymaster string   // handle of the agent that rotates credentials, or ""
	Peers     []string // listed handles, which may be asked to mail the operator
	Login     string   // name of the agent's own credential, "agent:claude"; "" if unknown
	Backends  []string // names of the backends that run turns, in the order of trying; if empty, only Login
	Challenge bool     // the operator is asked about mail without a proof that it is theirs

	// The mails to send.
	Ack, QuietPrep, QuietActive, Notices, Working bool
	Copies                                        bool // copies of our mails go into the folder for sent mail
	NoPeerAck                                     bool // no ack when a message of another agent wakes this one

	// AckAfter is how long an ack waits for the answer. The ack is not made if the answer comes
	// first.
	AckAfter time.Duration

	Turns       bool // messages get turns; false for runner "none"
	SelfTurns   int  // turns that the agent may cause in a row without hearing from its operator; 0 allows no such turn
	MaxAttempts int  // of one turn
	// TurnTimeout limits a turn that was taken by `inbox next`.
	TurnTimeout time.Duration
	ByThread    bool // each mail thread of the operator is a conversation of its own
	Rate        int  // operator messages an hour before more are deferred; 0 means unlimited
	EventRate   int  // the same for the messages of programs

	// Collect is how long a sender must be silent before their messages share one turn. With 0 each
	// message has its own turn at once.
	Collect time.Duration

	Budget Budget // limits on the cost of turns

	Hooks []HookPolicy

	// Prompts are the prompts by the clock. PromptSlack is how late they may be and still count as
	// in time, if it is more than the constant PromptSlack.
	Prompts     []PromptPolicy
	PromptSlack time.Duration
}

// HookPolicy names the events that a hook hears.
type HookPolicy struct {
	Name string
	On   []string // names of events; see Hears
}

// Interval returns the polling interval of the state. It is the engaged interval in PREP and
// ACTIVE, and while an answer is owed. It is the idle interval otherwise, and while halted
// (docs/design.md, "Timers").
func (s State) Interval(p Policy) time.Duration {
	if (s.Phase.Engaged() || s.Owing) && !s.Halted() {
		return p.EngagedInterval
	}
	return p.IdleInterval
}
