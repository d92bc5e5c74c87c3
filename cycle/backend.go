package cycle

import (
	"fmt"
	"slices"
	"strings"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// Backend is an alternative to Agent.Turn for running turns, with the rights of its turns.
type Backend struct {
	Name   string // as the state knows it; see state.BackendName
	Turn   *turn.Config
	Rights Rights
	Kinds  Kinds
	Window int64 // as Agent.Window

	// Low is set if the backend is Agent.Turn with its settings for a low budget.
	Low bool
}

// MaxFallbacks limits the fallbacks of an agent.
const MaxFallbacks = 4

// BackendNames returns the names of an agent's backends, in the order of trying.
func BackendNames(usual *turn.Config, others []Backend) []string {
	names := []string{usual.Login()}
	for _, b := range others {
		names = append(names, b.Name)
	}
	return names
}

// LowBackend returns the usual backend with its cheaper settings.
func LowBackend(usual *turn.Config) Backend {
	low := *usual
	low.LoginName = usual.Login()
	return Backend{Name: usual.Login() + ":" + state.LowBackend, Turn: &low, Low: true}
}

// backend runs turns. n is its place in the order of trying.
type backend struct {
	policy *state.Policy
	n      int
	low    bool

	turn   *turn.Config // nil: this backend runs no turns
	rights Rights
	kinds  Kinds
	window int64
}

// backendsOf returns the backends of an agent, in the order of trying.
func backendsOf(a *Agent) []backend {
	all := []backend{a.usual()}
	for i, other := range a.Backends {
		b := a.usual()
		b.n, b.low, b.turn = i+1, other.Low, other.Turn
		if !b.low {
			b.rights, b.kinds, b.window = other.Rights, other.Kinds, other.Window
		}
		all = append(all, b)
	}
	return all
}

// attempters returns one attempter for each backend.
func attempters(a *Agent) (all []*attempter) {
	for _, b := range backendsOf(a) {
		all = append(all, a.attempter(b))
	}
	return all
}

// name returns the name of the backend in the state.
func (b backend) name() string { return b.policy.BackendNames()[b.n] }

// failed returns the event of an attempt that met an outage.
func (b backend) failed(o turn.Outage) state.BackendFailed {
	return state.BackendFailed{Backend: b.name(), Kind: o.Kind, Reason: o.Reason, Until: o.Until}
}

// isOnly reports whether the agent has no other backend.
func (b backend) isOnly() bool { return len(b.policy.BackendNames()) == 1 }

// instead returns the reason why this backend runs a turn instead of the first one, or "".
func (b backend) instead(s state.State) string {
	if b.n == 0 {
		return ""
	}
	var why []string
	for _, name := range b.policy.BackendNames()[:b.n] {
		if o, out := s.Outages[name]; out {
			why = append(why, strings.TrimSuffix(o.Sentence(name), "."))
		}
	}
	return fmt.Sprintf("answered by %s. %s", state.BackendName(b.name()), strings.Join(slices.Compact(why), ". "))
}
