package acp

import (
	"encoding/json"

	"agentstateloop/turn"
)

// meter collects the usage that the agent reports. Under the protocol an agent need not report
// any.
type meter struct {
	model          string
	context, limit int64 // tokens in the session, and the context window

	// cost is the cost of the whole session in dollars. base is the cost when the prompt was
	// sent. For a loaded session it is unknown, unless the agent reports it.
	cost, base           float64
	costKnown, baseKnown bool

	usage turn.Usage
}

// update processes a usage_update.
func (m *meter) update(raw json.RawMessage) {
	var u struct {
		Used int64 `json:"used"`
		Size int64 `json:"size"`
		Cost *struct {
			Amount   float64 `json:"amount"`
			Currency string  `json:"currency"`
		} `json:"cost"`
		Meta struct {
			Model string `json:"_claude/model"`
		} `json:"_meta"`
	}
	if json.Unmarshal(raw, &u) != nil {
		return
	}
	if u.Used > 0 {
		m.context, m.limit = u.Used, max(0, u.Size)
	}
	if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount >= 0 {
		m.cost, m.costKnown = u.Cost.Amount, true
	}
	if u.Meta.Model != "" {
		m.model = u.Meta.Model
	}
}

// begin records that the prompt is sent now. fresh means that the session is new.
func (m *meter) begin(fresh bool) {
	m.base, m.baseKnown = m.cost, fresh || m.costKnown
}

// prompt reads the usage in the answer to the prompt, and in gemini's extension of it.
func (m *meter) prompt(usage, meta json.RawMessage) {
	var u struct {
		Input   int64 `json:"inputTokens"`
		Output  int64 `json:"outputTokens"`
		Thought int64 `json:"thoughtTokens"`
		Read    int64 `json:"cachedReadTokens"`
		Write   int64 `json:"cachedWriteTokens"`
		Total   int64 `json:"totalTokens"`
	}
	var q struct {
		Quota struct {
			Tokens struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"token_count"`
			Models []struct {
				Model string `json:"model"`
			} `json:"model_usage"`
		} `json:"quota"`
	}
	if json.Unmarshal(meta, &q) == nil {
		m.usage = turn.Usage{Input: q.Quota.Tokens.Input, Output: q.Quota.Tokens.Output}
		if len(q.Quota.Models) == 1 {
			m.model = q.Quota.Models[0].Model
		}
	}
	if json.Unmarshal(usage, &u) != nil || u.Input+u.Output+u.Read+u.Write == 0 {
		return
	}
	m.usage = turn.Usage{Input: u.Input, Output: u.Output, CacheRead: u.Read, CacheWrite: u.Write}
	// Agents differ: thoughts may be part of the output, and cached tokens part of the input. The
	// total decides.
	switch u.Total {
	case u.Input + u.Output + u.Read + u.Write + u.Thought:
		m.usage.Output += u.Thought
	case u.Input + u.Output + u.Thought:
		m.usage.Output += u.Thought
		m.usage.Input -= u.Read + u.Write
	case u.Input + u.Output:
		m.usage.Input -= u.Read + u.Write
	}
}

// bill enters the usage and cost of the turn in done.
func (m *meter) bill(done *turn.Event) {
	done.Usage, done.Context, done.Window = m.usage, m.context, m.limit
	done.Model = displayName(m.model)
	if m.costKnown && m.baseKnown && m.cost > m.base {
		done.CostUSD = m.cost - m.base
	}
}
