package view

import (
	"time"

	"agentstateloop/state"
)

// Band is the agent's past between two times: its phases, and what happened on them.
type Band struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Phases []Span    `json:"phases"` // without gaps, the oldest first
	Marks  []Mark    `json:"marks"`  // the oldest first
}

// Span is one phase.
type Span struct {
	Phase state.Phase `json:"phase"`
	From  time.Time   `json:"from"`
	To    time.Time   `json:"to"`
}

// Mark is something that happened.
type Mark struct {
	Kind string     `json:"kind"` // "mail", "nudge", "turn", "answer", "halt"
	At   time.Time  `json:"at"`
	To   *time.Time `json:"to"` // the end of a turn or a halt; null for a moment
	Text string     `json:"text"`
}
