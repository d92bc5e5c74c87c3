// Package state is the machine of agentStateLoop, as one pure function: [Step]
// takes state, events, policy and time, and returns the new state. It does no
// I/O and reads no clock. Package state/store keeps the state on disk.
//
//	        operator message, mesh message, nudge
//	      ┌──────────────── ack ────────────────┐
//	      │                                     ▼
//	┌───────────┐   5 min without one     ┌───────────┐
//	│   IDLE    │◀────── going quiet ─────│   PREP    │
//	│ every 30m │                         │ every 1m  │
//	└───────────┘                         └───────────┘
//	      ▲                                     │
//	      │                                     │ operator message
//	      │   10 min without one          ┌─────▼─────┐
//	      └──────── going quiet ──────────│  ACTIVE   │──┐ operator message:
//	                                      │ every 1m  │◀─┘ timer restarts
//	                                      └───────────┘
//
// Package cycle drives it (docs/design.md, "One cycle"):
//
//	load ─▶ observe mail, mesh, nudges ─▶ commit: Step, write, fsync, rename
//	                                         │
//	             ┌───────────────────────────┘
//	             ▼
//	project: crontab line, \Seen, mesh acks ─▶ perform: the outbox ─▶ scan once more ─▶ turns
//	                                              │
//	                                              └─ each result is an Event for the next commit
//
// A commit writes state.json whole under flock, fsyncs and renames it, keeps the
// last good one as state.json.prev, and records every change in the history.
// Every change to the world outside is a row of the outbox before it happens.
package state

//go:generate go run ../internal/testkit/membersgen

import (
	"fmt"
	"slices"
	"time"
)

// Version is the format of state.json that this program writes, unless the state needs VersionHeld.
// It rejects one that is newer than both.
const Version = 1

// State is the memory of one agent between polls (docs/protocol.md, "Files of one agent"). It holds
// only durable metadata and stays small, because every commit writes all of it. The conversation is
// in the history, payloads are in messages/ and outbox/. Times are UTC.
//
// Each subject has its fields in a struct of its own, in its file. The JSON has all of them side by
// side, in the order of the structs and fields. After a change of a field or a tag, run go generate
// ./state.
type State struct {
	Identity
	Timers
	Exchange
	Halts
	Hourly
	Waking
	Reading
	Nudging
	Received
	ChallengeQueue
	Deliveries
	HookQueue
	Work
	Purse    Purse         `json:"purse,omitzero"`     // the cost of turns
	Prompts  []TimedPrompt `json:"prompts,omitempty"`  // prompts by the clock, with their next times
	Expected []Expected    `json:"expected,omitempty"` // reports that may come although no turn waits for them
	Memories
	Pruned time.Time `json:"pruned,omitzero"` // when old files were last removed from the folders
	Faults
	Schedule  Schedule  `json:"schedule,omitzero"`
	Published Published `json:"published,omitzero"`

	// Lines are the history lines of this serial. See Line.
	Lines []Line `json:"lines,omitempty"`
}

// Identity names the agent and the state.
type Identity struct {
	Version int    `json:"version"`
	Serial  uint64 `json:"serial"` // rises by one at every commit
	Agent   string `json:"agent"`
	Seed    string `json:"seed"`   // makes minted ids unguessable
	Minted  uint64 `json:"minted"` // ids minted so far

	// IDsKeyed is set by the first step of a version whose Message-IDs carry a MAC.
	IDsKeyed bool `json:"ids_keyed,omitempty"`

	// Place names this copy of the state. It comes from the seed, so that a restored copy has
	// another one.
	Place string `json:"place,omitempty"`

	// Moved is set after `move`: the agent lives elsewhere now.
	Moved *Moved `json:"moved,omitempty"`

	Elsewhere Elsewhere `json:"elsewhere,omitzero"`

	// Seat is the host that acts, of an agent with several hosts.
	Seat Seat `json:"seat,omitzero"`
}

// New returns the state of an agent that has never polled. seed must be random.
func New(agent, seed string) State {
	var s State
	s.Identity = Identity{Version: Version, Agent: agent, Seed: seed, Place: placeOf(seed)}
	s.Phase, s.Turn.Status = IDLE, HeadIdle
	return s
}

// clone copies everything that Step may change, so that the input of Step stays unchanged. The
// machine copies Seen when it changes it.
func (s State) clone() State {
	s.Hourly = s.Hourly.clone()
	s.Reading = s.Reading.clone()
	s.Nudging = s.Nudging.clone()
	s.Received = s.Received.clone()
	s.ChallengeQueue = s.ChallengeQueue.clone()
	s.Deliveries = s.Deliveries.clone()
	s.HookQueue = s.HookQueue.clone()
	s.Turn = s.Turn.clone()
	s.Purse = s.Purse.clone()
	s.Prompts = slices.Clone(s.Prompts)
	s.Expected = slices.Clone(s.Expected)
	s.Memories = s.Memories.clone()
	s.Faults = s.Faults.clone()
	s.Lines = nil
	return s
}

// TurnsInUse returns the ids of the turns whose files a later attempt may need.
func (s State) TurnsInUse() []string {
	ids := []string{s.Turn.TurnID}
	for _, m := range s.Inbox {
		ids = append(ids, m.TurnID, m.MadeBy)
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" })
}

// Valid returns an error for a state that parses but that we cannot have written.
func (s State) Valid() error {
	switch {
	case s.Version < 1:
		return fmt.Errorf("no version")
	case s.Agent == "":
		return fmt.Errorf("no agent")
	case !slices.Contains(phases[:], s.Phase):
		return fmt.Errorf("unknown phase %q", s.Phase)
	case !slices.Contains(headStatuses[:], s.Turn.Status):
		return fmt.Errorf("unknown turn status %q", s.Turn.Status)
	}
	return nil
}

// WithTimesOf returns s with the serial of t and the times of t that every poll changes: when the
// last step was made, when the mailbox was read to its end, and when the next poll is due. A poll
// without news changes only these. If such a change is lost, it is as if the poll never came: the
// next one reads the mailbox from the same place.
func (s State) WithTimesOf(t State) State {
	s.Serial = t.Serial
	s.LastStep, s.NextDue, s.LastMailRead = t.LastStep, t.NextDue, t.LastMailRead
	s.Cursor.Complete = t.Cursor.Complete
	return s
}
