package state

import "time"

// Policy holds what the configuration prescribes to the machine (docs/design.md,
// "Configuration"). Step reads nothing but the policy, the state, the events and
// the time.
type Policy struct {
	IdleInterval    time.Duration // poll interval in IDLE
	EngagedInterval time.Duration // in PREP and ACTIVE
	PrepTimeout     time.Duration // silence that ends PREP
	ActiveTimeout   time.Duration // silence that ends ACTIVE
	Cooldown        time.Duration // after five failed turns in a row
	Location        *time.Location

	HasMail   bool     // the operator can be reached by mail and reach us
	HasMesh   bool     // a localMesh is configured
	PacesMesh bool     // that mesh keeps no pace, so we do
	Operator  string   // first operator address: receives ack, quiet and notices
	Others    []string // further operator addresses
	Keymaster string   // handle of the agent that rotates credentials; "" = none
	Peers     []string // listed handles, which may be asked to mail the operator
	Login     string   // name of the agent's own credential, "agent:claude"; "" = unknown
	Backends  []string // names of what runs turns, in the order of trying; none: the one named Login
	Challenge bool     // the operator is asked about mail that nothing proves to be theirs

	// Which mails are sent.
	Ack, QuietPrep, QuietActive, Notices, Working bool
	Copies                                        bool // of our mails are put into the folder for sent mail
	NoPeerAck                                     bool // no ack when a message of another agent wakes this one

	// AckAfter is how long an ack waits for the answer, and is not made if that is there
	// first.
	AckAfter time.Duration

	Turns       bool // messages get turns; false for runner "none"
	SelfTurns   int  // that the agent may cause in a row without a word from its operator; 0 = none
	MaxAttempts int  // of one turn
	// TurnTimeout limits a turn that was taken by `inbox next`.
	TurnTimeout time.Duration
	ByThread    bool // each mail thread of the operator is a conversation of its own
	Rate        int  // operator messages an hour before more are deferred; 0 = no limit
	EventRate   int  // the same of the messages of programs

	// Collect is how long a sender must be silent before what they wrote has one turn; 0:
	// each message has its own at once.
	Collect time.Duration

	Budget Budget // what turns may cost

	Hooks []HookPolicy

	// Prompts are those of the clock. PromptSlack is how late they may be and still be in
	// time, if that is more than PromptSlack.
	Prompts     []PromptPolicy
	PromptSlack time.Duration
}

// HookPolicy is which events a hook hears.
type HookPolicy struct {
	Name string
	On   []string // names of events; see Hears
}

// Interval returns the polling interval of the state: the engaged one in PREP and
// ACTIVE, and while an answer is owed; the idle one otherwise in IDLE, and while
// halted (docs/design.md, "Timers").
func (s State) Interval(p Policy) time.Duration {
	if (s.Phase.Engaged() || s.Owing) && !s.Halted() {
		return p.EngagedInterval
	}
	return p.IdleInterval
}
