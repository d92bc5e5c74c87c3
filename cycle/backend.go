package cycle

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

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
	all := []backend{a.mainBackend()}
	for i, other := range a.Backends {
		b := a.mainBackend()
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

// Backoff returns pauses that double from Min to Max. Each is shortened by up
// to half at random, so that a thousand agents do not come back at once.
type Backoff struct {
	Min, Max time.Duration
	last     time.Duration
}

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.Min), b.Max)
	return b.last/2 + rand.N(b.last/2+1)
}

// Reset starts again with Min.
func (b *Backoff) Reset() { b.last = 0 }

// sessions answers questions about the sessions of one backend with its model. Each
// conversation has its own session for each backend.
type sessions struct {
	turn   *turn.Config // nil: no turn is run here
	window int64        // tokens that a session can hold; 0: as the agent reports
}

// runner returns the name of the backend's sessions in the state.
func (ss sessions) runner() string { return strings.TrimPrefix(ss.turn.Login(), "agent:") }

// of returns the session that a turn of this conversation continues. Without an ID a fresh
// session begins.
func (ss sessions) of(s state.State, t state.Talk) state.Session {
	if ss.turn == nil {
		return state.Session{}
	}
	return s.SessionOf(t, ss.runner())
}

// missed returns the epoch of the last attempt that the session knows, if other backends have
// had later turns of the conversation. It returns 0 if the session knows them all.
func (ss sessions) missed(s state.State, t state.Talk) (after uint64) {
	own, last := ss.of(s, t), s.ConversationOf(t).Session
	if own.ID == "" || own == last {
		return 0
	}
	return own.Epoch
}

// after returns the session for the conversation's next turn.
func (ss sessions) after(s state.State, r turn.Result) state.Session {
	if r.Session == "" {
		return state.Session{}
	}
	return state.Session{Runner: ss.runner(), ID: r.Session, Context: sessionTokens(s, r), Window: r.Window}
}

// full returns how many percent of its window a session fills, or 0 if that is unknown.
func (ss sessions) full(session state.Session) int {
	if session.ID == "" {
		return 0
	}
	window := cmp.Or(ss.window, session.Window, turn.RunnerWindow(ss.turn.Runner))
	if window <= 0 {
		return 0
	}
	return int(min(1000, session.Context*100/window))
}

// warning returns how many percent of its window a session fills if the agent is to be warned,
// and otherwise 0.
func (ss sessions) warning(session state.Session) int {
	if full := ss.full(session); full >= warnAt {
		return full
	}
	return 0
}

// toCompact reports whether a summary must replace a session before its next turn.
func (ss sessions) toCompact(session state.Session) bool {
	return ss.full(session) >= compactAt && session.FailedSummaries < maxFailedSummaries
}

// sessionTokens returns how many tokens a session holds after an attempt: the agent's own figure,
// or else the average of one of its calls.
func sessionTokens(s state.State, r turn.Result) int64 {
	if r.Context > 0 {
		return r.Context
	}
	used := state.Tokens(r.Usage)
	if r.Meter != "" {
		used = meterRise(used, s.Purse.MeterOf(r.Meter))
	}
	return (used.Input + used.Output + used.CacheRead + used.CacheWrite) / int64(max(1, r.Calls))
}

// mainBackend is the backend that runs turns unless it has an outage.
func (a *Agent) mainBackend() backend {
	return backend{policy: &a.Policy, turn: a.Turn, rights: a.Rights, kinds: a.Kinds, window: a.Window}
}
