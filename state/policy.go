package state

import "time"

// Policy is what the configuration tells the machine (DESIGN 12). Step reads
// it and nothing else beside the state, the events and the time.
type Policy struct {
	IdleInterval    time.Duration // poll interval in IDLE
	EngagedInterval time.Duration // in PREP and ACTIVE
	PrepTimeout     time.Duration // silence that ends PREP
	ActiveTimeout   time.Duration // silence that ends ACTIVE
	Cooldown        time.Duration // after five failed turns in a row
	Location        *time.Location

	HasMail   bool     // the operator can be reached by mail and reach us
	HasMesh   bool     // there is a localMesh
	Operator  string   // first operator address: receives ack, quiet and notices
	Keymaster string   // handle told of failures; "" = none
	Peers     []string // listed handles, who may be asked to mail the operator
	Login     string   // name of the agent's own credential, "agent:claude"; "" = unknown
	Challenge bool     // the operator is asked about mail that nothing proves to be his

	// Mails that can be switched off.
	Ack, QuietPrep, QuietActive, Notices, Working bool

	Turns       bool // messages are run; false under runner "none"
	MaxAttempts int  // of one turn
	// TurnTimeout is how long a turn that was taken by `inbox next` may take.
	TurnTimeout time.Duration
	Rate        int // operator messages an hour before more are deferred; 0 = no limit

	Budget Budget // what turns may cost
}

// Interval is the polling interval that the state asks for: engaged in PREP
// and ACTIVE, idle in IDLE and while halted (DESIGN 5).
func (s State) Interval(p Policy) time.Duration {
	if s.Phase.Engaged() && !s.Halted() {
		return p.EngagedInterval
	}
	return p.IdleInterval
}
