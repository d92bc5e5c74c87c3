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
	"maps"
	"slices"
	"time"
)

// Version is the format of state.json that this program writes. It rejects a
// newer one.
const Version = 1

// State is the memory of one agent between polls (docs/design.md, "Files of one agent"). It holds
// only durable metadata and stays small, because every commit writes all of it. The conversation is
// in the history, payloads are in messages/ and outbox/. Times are UTC.
type State struct {
	Version int    `json:"version"`
	Serial  uint64 `json:"serial"` // rises by one at every commit
	Agent   string `json:"agent"`
	Seed    string `json:"seed"`   // makes minted ids unguessable
	Minted  uint64 `json:"minted"` // ids minted so far

	// IDsKeyed is set by the first step of a version whose Message-IDs carry a MAC.
	IDsKeyed bool `json:"ids_keyed,omitempty"`

	Phase      Phase     `json:"phase"`
	PhaseSince time.Time `json:"phase_since"`
	LastStep   time.Time `json:"last_step,omitzero"`
	NextDue    time.Time `json:"next_due,omitzero"` // when the crontab line of this interval fires next

	// Silence counts from the latest of PhaseSince and these two.
	LastOperator time.Time `json:"last_operator,omitzero"`
	LastDelivery time.Time `json:"last_delivery,omitzero"`
	LastMailRead time.Time `json:"last_look,omitzero"` // when the operator's mail was last read to its end

	LastMail   LastMail   `json:"last_mail,omitzero"`
	LastAnswer LastAnswer `json:"last_answer,omitzero"`

	HaltedHere bool `json:"halted_here,omitempty"` // each is lifted only where it was set
	HaltedMesh bool `json:"halted_mesh,omitempty"`

	Acks          []time.Time     `json:"acks,omitempty"`           // made within the last hour
	Quiets        []time.Time     `json:"quiets,omitempty"`         // made within the last hour
	Accepted      []time.Time     `json:"accepted,omitempty"`       // mails of the operator admitted within the last hour
	Programs      []time.Time     `json:"programs,omitempty"`       // messages of programs admitted within the last hour
	Alarms        []time.Time     `json:"alarms,omitempty"`         // sent to the keymaster within the last hour
	Posts         []time.Time     `json:"posts,omitempty"`          // messages that left within the last minute through a mesh without a pace of its own
	OperatorAsked []AskedOperator `json:"operator_asked,omitempty"` // questions of the last hour

	Relays   []Relaying `json:"relays,omitempty"`   // for peers within the last hour
	Rung     []Ringing  `json:"rung,omitempty"`     // acks of nudges through the mesh within the last hour
	WokenBy  string     `json:"woken_by,omitempty"` // agent whose mesh nudge woke us, until a message follows; with ack_peers off also whose message woke us
	RateTold time.Time  `json:"rate_told,omitzero"` // when the operator was told that mails wait because of the hourly limit

	AckWaits WaitingAck `json:"ack_waits,omitzero"`
	Unmailed bool       `json:"unmailed,omitempty"` // the operator got no mail about this waking and did not write

	Cursor Cursor   `json:"cursor,omitzero"`
	ToFlag ToFlag   `json:"to_flag,omitzero"` // mail to mark \Seen
	ToAck  []string `json:"to_ack,omitempty"` // mesh ids to acknowledge
	Thread Thread   `json:"thread,omitzero"`  // the operator's newest conversation

	// Seen maps the keys and digests of accepted items to the Unix second of the last time; prune
	// forgets old ones. Nudges are the keys of nudge files that may still be in nudges/.
	Seen   map[string]int64 `json:"seen,omitempty" members:"again"`
	Nudges []string         `json:"nudges,omitempty"`

	// Rings are the nudges that no turn of the operator has seen, newest last. LastRing is the
	// newest nudge of all.
	Rings    []Ring `json:"rings,omitempty"`
	LastRing Ring   `json:"last_ring,omitzero"`

	Inbox       []Message `json:"inbox,omitempty" members:"again"` // in order of arrival
	Arrivals    uint64    `json:"arrivals"`                        // of all time
	Quarantined int       `json:"quarantined,omitempty"`           // items in quarantine/
	Unkept      int       `json:"unkept,omitempty"`                // items ever rejected beyond the limits of quarantine/

	Uncalled Uncalled `json:"uncalled,omitzero"`

	Numbers   Numbers           `json:"numbers,omitzero"`
	Unfetched map[string]uint64 `json:"unfetched,omitempty"` // numbers of mails that are not fetched yet, by key

	Challenges    []OpenChallenge `json:"challenges,omitempty"` // open
	Unasked       []string        `json:"unasked,omitempty"`    // keys of the mails to ask the operator about next
	Doubtful      []string        `json:"doubtful,omitempty"`   // keys of signed mails with two readings to ask the operator about next
	LastChallenge time.Time       `json:"last_challenge,omitzero"`

	Outbox []Effect `json:"outbox,omitempty"` // in order of creation

	// SendingFails is set while the server that sends our mail cannot be used. Undelivered are the
	// rows that were given up, oldest first.
	SendingFails SendingFailure `json:"sending_fails,omitzero"`
	Undelivered  []Effect       `json:"undelivered,omitempty"`
	Unfiled      []Unfiled      `json:"unfiled,omitempty"` // oldest first
	Owing        bool           `json:"owing,omitempty"`   // in IDLE, while an answer of the last hour could not be delivered

	Lost []Returned `json:"lost,omitempty"` // mails that came back, in that order

	// HookCalls is the outbox of the hooks, in order of creation. It is apart from Outbox, so that
	// a hook cannot hold up a mail. FailingHooks are by name.
	HookCalls    []Effect               `json:"hook_calls,omitempty"`
	FailingHooks map[string]FailingHook `json:"failing_hooks,omitempty"`

	Turn          Head          `json:"turn"`
	Epoch         uint64        `json:"epoch"`                // the highest ever
	Asleep        bool          `json:"asleep,omitempty"`     // the last turn left nothing to do
	SleepUntil    time.Time     `json:"sleep_until,omitzero"` // the agent asked to be left alone until then
	SleepFor      time.Duration `json:"sleep_for,omitempty"`  // how long it asked for
	Streak        SelfStreak    `json:"self_streak,omitzero"`
	Reset         Reset         `json:"reset,omitzero"` // the last one
	FailedTurns   int           `json:"failed_turns,omitempty"`
	CooldownUntil time.Time     `json:"cooldown_until,omitzero"`
	Purse         Purse         `json:"purse,omitzero"` // the cost of turns

	Prompts []TimedPrompt `json:"prompts,omitempty"` // prompts by the clock, with their next times

	Expected []Expected `json:"expected,omitempty"` // reports that may come although no turn waits for them

	Conversation                     // with the operator
	Others       []OtherConversation `json:"agents,omitempty"` // last used at the end
	Parked       []ParkedSession     `json:"parked,omitempty"` // sessions of backends that were not used last

	Pruned time.Time `json:"pruned,omitzero"` // when old files were last removed from the folders

	Credentials map[string]Credential `json:"credentials,omitempty"`
	Outages     map[string]Outage     `json:"outages,omitempty"` // of backends, by name
	Schedule    Schedule              `json:"schedule,omitzero"`
	Published   Published             `json:"published,omitzero"`

	// Lines are the history lines of this serial. See Line.
	Lines []Line `json:"lines,omitempty"`
}

// New returns the state of an agent that has never polled. seed must be random.
func New(agent, seed string) State {
	return State{Version: Version, Agent: agent, Seed: seed, Phase: IDLE, Turn: Head{Status: HeadIdle}}
}

// clone copies everything that Step may change, so that the input of Step stays unchanged. The
// machine copies Seen when it changes it.
func (s State) clone() State {
	s.Acks = slices.Clone(s.Acks)
	s.Quiets = slices.Clone(s.Quiets)
	s.Accepted = slices.Clone(s.Accepted)
	s.Alarms = slices.Clone(s.Alarms)
	s.Posts = slices.Clone(s.Posts)
	s.Programs = slices.Clone(s.Programs)
	s.OperatorAsked = slices.Clone(s.OperatorAsked)
	s.Rings = slices.Clone(s.Rings)
	s.Relays = slices.Clone(s.Relays)
	s.Rung = slices.Clone(s.Rung)
	s.Cursor = s.Cursor.Clone()
	s.ToFlag.UIDs = slices.Clone(s.ToFlag.UIDs)
	s.ToAck = slices.Clone(s.ToAck)
	s.Nudges = slices.Clone(s.Nudges)
	s.Inbox = slices.Clone(s.Inbox)
	s.Unfetched = maps.Clone(s.Unfetched)
	s.Challenges = slices.Clone(s.Challenges)
	s.Unasked, s.Doubtful = slices.Clone(s.Unasked), slices.Clone(s.Doubtful)
	s.Outbox = slices.Clone(s.Outbox)
	s.Undelivered = slices.Clone(s.Undelivered)
	s.Unfiled = slices.Clone(s.Unfiled)
	s.Lost = slices.Clone(s.Lost)
	s.HookCalls = slices.Clone(s.HookCalls)
	s.FailingHooks = maps.Clone(s.FailingHooks)
	s.Turn.Waiting = slices.Clone(s.Turn.Waiting)
	s.Expected = slices.Clone(s.Expected)
	s.Prompts = slices.Clone(s.Prompts)
	s.Turn.With = slices.Clone(s.Turn.With)
	s.Turn.Given = slices.Clone(s.Turn.Given)
	s.Purse.Days = slices.Clone(s.Purse.Days)
	s.Purse.Months = slices.Clone(s.Purse.Months)
	s.Purse.Counted = slices.Clone(s.Purse.Counted)
	s.Purse.Unpriced, s.Purse.Unbilled = slices.Clone(s.Purse.Unpriced), slices.Clone(s.Purse.Unbilled)
	s.Purse.Meters = slices.Clone(s.Purse.Meters)
	s.Others, s.Parked = slices.Clone(s.Others), slices.Clone(s.Parked)
	s.Credentials = maps.Clone(s.Credentials)
	s.Outages = maps.Clone(s.Outages)
	s.Lines = nil
	return s
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
