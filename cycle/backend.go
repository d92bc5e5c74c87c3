package cycle

import "agentstateloop/state"

// backend is what runs the turns of an agent: a program, or our own loop with a model. n is its
// place in the order in which the backends are tried.
type backend struct {
	policy *state.Policy
	n      int
}

// name returns the name by which the state knows the backend.
func (b backend) name() string { return b.policy.BackendNames()[b.n] }
