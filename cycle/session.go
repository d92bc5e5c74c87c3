package cycle

import (
	"cmp"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// sessions answers questions about the agent's sessions with its model, of which
// each principal has its own.
type sessions struct {
	turn   *turn.Config // nil: no turn is run here
	window int64        // tokens that a session can hold; 0: as the agent says
}

// continued returns the session that a turn of this conversation continues, or ""
// for a fresh one.
func (ss sessions) continued(c state.Conversation) string {
	if ss.turn == nil || c.Session.Runner != ss.turn.Runner {
		return ""
	}
	return c.Session.ID
}

// after returns the session of the principal's next turn.
func (ss sessions) after(s state.State, r turn.Result) state.Session {
	if r.Session == "" {
		return state.Session{}
	}
	return state.Session{Runner: ss.turn.Runner, ID: r.Session, Context: holds(s, r), Window: r.Window}
}

// full returns how many percent of its window the continued session fills, or 0
// if that is unknown.
func (ss sessions) full(c state.Conversation) int {
	if ss.continued(c) == "" {
		return 0
	}
	window := cmp.Or(ss.window, c.Session.Window, turn.RunnerWindow(c.Session.Runner))
	if window <= 0 {
		return 0
	}
	return int(min(1000, c.Session.Context*100/window))
}

// warning returns how many percent of its window the continued session fills, if the agent
// is warned of that, and else 0.
func (ss sessions) warning(c state.Conversation) int {
	if full := ss.full(c); full >= warnAt {
		return full
	}
	return 0
}

// toCompact reports whether a summary is to replace the continued session before its next
// turn.
func (ss sessions) toCompact(c state.Conversation) bool {
	return ss.full(c) >= compactAt && c.Session.FailedSummaries < maxFailedSummaries
}

// holds returns how many tokens a session holds after an attempt: as the agent
// reports, or else the average of one of its calls.
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
