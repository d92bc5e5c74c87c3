package cycle

import (
	"cmp"
	"strings"

	"agentstateloop/state"
	"agentstateloop/turn"
)

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
	return state.Session{Runner: ss.runner(), ID: r.Session, Context: holds(s, r), Window: r.Window}
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

// holds returns how many tokens a session holds after an attempt: the agent's own figure, or
// else the average of one of its calls.
func holds(s state.State, r turn.Result) int64 {
	if r.Context > 0 {
		return r.Context
	}
	used := state.Tokens(r.Usage)
	if r.Meter != "" {
		used = onTop(used, s.Purse.MeterOf(r.Meter))
	}
	return (used.Input + used.Output + used.CacheRead + used.CacheWrite) / int64(max(1, r.Calls))
}
