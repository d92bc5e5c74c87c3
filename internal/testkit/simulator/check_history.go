package simulator

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/state"
)

// The prefixes of the ids of effects.
const (
	replyKind  = "reply."
	answerKind = "answer."
)

// checkHistory checks that the history agrees with the rules of the machine, and returns its money.
// last is set at the end of the story.
func (w *World) checkHistory(h history, last bool) ledger {
	v := historyChecker{
		world: w, last: last, phase: "IDLE", backends: backendOutages{}, streak: streak{planned: map[string]bool{}},
		money:    ledger{days: map[string]state.Micros{}, turns: map[string]state.Micros{}, begun: map[string]string{}, paid: map[string]bool{}},
		operator: map[string]bool{}, open: map[string]bool{}, acceptedAt: map[string]uint64{}, ended: map[string]state.Outcome{},
		keys: map[string]string{}, halted: haltedBy{}, seen: map[string]bool{},
	}
	for _, l := range h.lines {
		v.read(l)
	}
	return v.money
}

// historyChecker checks a history line by line.
type historyChecker struct {
	world *World
	last  bool

	phase      state.Phase
	operator   map[string]bool          // messages of the operator
	open       map[string]bool          // operator messages whose turn has not ended
	acceptedAt map[string]uint64        // serial of acceptance, by key
	ended      map[string]state.Outcome // status of turns that have ended, by id
	keys       map[string]string        // turn of a message
	seen       map[string]bool          // see again

	halted    haltedBy
	head      string // the turn under way
	suspended bool   // the turn waits for other agents
	asked     string // the message that the turn answers
	tier      string // the budget tier
	money     ledger
	rings     rings
	owed      owed
	streak    streak
	backends  backendOutages
	failed    int // failed turns in a row
	acks      int // acks that may still be queued
	patience  patienceChecker
	serial    uint64
	at        time.Time // of the last line
	heard     bool      // this serial has an operator message
	woken     bool      // this serial has something that may wake
}

func (v *historyChecker) broken(promise, format string, args ...any) {
	v.world.violate(promise, "history: "+format, args...)
}

// again records an event of a thing. It reports whether the event has happened before.
func (v *historyChecker) again(event, id string) bool {
	before := v.seen[event+" "+id]
	v.seen[event+" "+id] = true
	return before
}

// happened counts an event, once for the whole history.
func (v *historyChecker) happened(what string) {
	if v.last {
		v.world.count.happened(what)
	}
}

func (v *historyChecker) read(l line) {
	if l.Serial != v.serial {
		v.patience.committed(v)
		v.serial, v.heard, v.woken = l.Serial, false, false
		if v.world.story.AckAfter == 0 {
			v.acks = 0 // it is made in the step that wakes
		}
	}
	v.at = l.At
	v.halted.read(l)
	v.backends.read(l)
	v.streak.read(v, l)
	switch l.Kind {
	case "message":
		v.message(l)
	case "nudge":
		if v.again("nudged", l.Key) && !v.world.record.nudgeBack {
			v.broken("7", "nudge %s was accepted twice", l.Key)
		}
		v.woken = true
		v.rings.nudge(v, l)
	case "transition":
		v.moved(l)
	case "tier":
		v.tier = string(l.What)
		v.happened("tier: " + string(l.What))
	case "spend":
		v.spent(l)
	case "credit":
		if l.What == state.WordToppedUp {
			v.money.topped += l.Amount
			v.money.credits++
		}
	case "turn":
		v.turned(l)
	case "task":
		v.finished(l)
	case "ended":
		delete(v.open, l.Key)
	case "damage": // the message is held until its payload is fetched again
		delete(v.open, l.Key)
		if l.What == state.WordMended && v.operator[l.Key] {
			v.open[l.Key] = true
		}
	case "edge":
		if l.answersQuestion() {
			v.heard, v.woken = true, true
			v.rings.followed()
		}
	case "effect":
		v.queued(l)
		v.owed.queued(l)
	case "ack":
		v.patience.read(v, l)
	case "delivery":
		v.owed.ended(l)
	case "recovery":
		if l.What == state.WordRestored {
			v.restored()
			return
		}
		if l.What != "" {
			return // a move, or the end of a restore
		}
		v.happened("the state was recovered")
		v.recovered(l)
	}
}

func (v *historyChecker) message(l line) {
	if _, twice := v.acceptedAt[l.Key]; twice && l.What != state.WordRetried {
		v.broken("2", "%s was accepted twice", l.Key)
	}
	v.acceptedAt[l.Key] = l.Serial
	if l.Source == "prompt" { // likewise; in tier critical one that has begun goes on
		v.again("prompted", l.Key)
		return
	}
	if l.Source == "self" { // wakes no one, and is not work before its turn
		v.operator[l.Key] = l.Message != nil && l.Message.Operator
		return
	}
	v.woken = true
	v.rings.followed()
	if l.Message != nil && l.Message.Operator {
		v.open[l.Key], v.operator[l.Key], v.heard = true, true, true
	}
}

// moved checks a transition (docs/design.md, "Phases").
func (v *historyChecker) moved(l line) {
	if l.Old != v.phase {
		v.broken("3", "%s→%s, but the phase was %s", l.Old, l.New, v.phase)
	}
	byHand := strings.HasPrefix(l.Reason, "by hand")
	switch l.Old + l.New {
	case "IDLEPREP":
		v.acks = 1
		if !byHand && !v.woken {
			v.broken("4", "IDLE→PREP (%s) without a message or a nudge", l.Reason)
		}
	case "PREPACTIVE":
		if !byHand && !v.heard {
			v.broken("4", "PREP→ACTIVE without a message of the operator")
		}
	case "PREPIDLE", "ACTIVEIDLE":
		if !byHand && v.works(l.At) {
			v.broken("3", "%s→IDLE (%s) while work waits: %v %s", l.Old, l.Reason, sortedKeys(v.open), v.head)
		}
	default:
		if !byHand && l.Reason != "restored from a backup" {
			v.broken("3", "%s→%s: %s", l.Old, l.New, l.Reason)
		}
	}
	if l.New == "IDLE" {
		v.acks = 0
	}
	v.rings.moved(l)
	v.owed.moved(v, l)
	v.phase = l.New
}

func (v *historyChecker) turned(l line) {
	lingers := l.What == state.WordStop && !v.seen["exited "+l.TurnID] // its agent has answered, and lives
	if outcome, over := v.ended[l.TurnID]; over && l.What != state.WordStale && l.What != state.WordExited && !lingers {
		v.broken("2", "turn %s: %s after it ended (%s)", l.TurnID, l.What, outcome)
	}
	switch l.What {
	case state.WordDispatched:
		if v.head != "" && l.Reason != "resumed" {
			v.broken("2", "turn %s was dispatched while %s was under way", l.TurnID, v.head)
		}
		if other := v.keys[l.Key]; other != "" && other != l.TurnID && !v.world.record.wasHurt(l.Key) { // it leaves a turn that it shared
			v.broken("2", "%s has two turns, %s and %s", l.Key, other, l.TurnID)
		}
		if v.seen["submitted "+l.TurnID] {
			v.broken("2", "turn %s was dispatched again after its deliverable was submitted", l.TurnID)
		}
		goesOn := v.seen["prompted "+l.Key] && v.keys[l.Key] == l.TurnID
		if v.tier == "dead" || v.tier == "critical" && !v.operator[l.Key] && !goesOn {
			v.broken("budget", "turn %s was dispatched in tier %s", l.TurnID, v.tier)
		}
		v.affords(l)
		v.keys[l.Key], v.head, v.suspended = l.TurnID, l.TurnID, false
	case state.WordSubmitted:
		v.again("submitted", l.TurnID)
	case state.WordExited:
		v.again("exited", l.TurnID)
	case state.WordReaped, state.WordGivenBack:
		if strings.HasPrefix(l.Reason, "credential") {
			v.held(l.Key)
		}
		v.happened("a turn was " + string(l.What))
		v.head = ""
	case state.WordSuspended:
		v.happened("a turn was suspended")
		v.suspended, v.asked = true, l.Key
	case state.WordStale:
		v.happened("a stale write was refused")
	}
}

// held marks a message as held until the agent can log in again, together with the messages that
// its turn had collected: they came before it.
func (v *historyChecker) held(key string) {
	for other := range v.open {
		if v.acceptedAt[other] <= v.acceptedAt[key] {
			delete(v.open, other)
		}
	}
}

func (v *historyChecker) finished(l line) {
	if _, twice := v.ended[l.TurnID]; twice {
		v.broken("2", "turn %s ended twice", l.TurnID)
	}
	v.happened("a turn ended: " + string(l.Outcome))
	if strings.Contains(l.Reason, "its runner died") {
		v.happened("a fallback was delivered")
	}
	v.ended[l.TurnID] = l.Outcome
	v.head = ""
	delete(v.open, l.Key)
	for _, other := range l.Collected {
		if v.again("collected", other.Key) {
			v.broken("collect", "%s ended twice, at last with turn %s", other.Key, l.TurnID)
		}
		v.keys[other.Key] = l.TurnID
		delete(v.open, other.Key)
	}
	switch l.Outcome {
	case "success", "partial":
		v.failed = 0
	case "failed", "timeout":
		v.failed++
	}
}

// works reports whether there is work (docs/design.md, "Glossary"): a turn, or a message of the
// operator that is not held. A suspended turn without budget is held, too.
func (v *historyChecker) works(at time.Time) bool {
	if v.head != "" {
		return !v.suspended || v.runs(at, v.operator[v.asked]) && !v.backends.all(at, v.world.story.Fallback)
	}
	held := v.halted.any() || v.failed >= 5 || v.backends.all(at, v.world.story.Fallback)
	return len(v.open) > 0 && !held && v.runs(at, true)
}

func (v *historyChecker) queued(l line) {
	if l.What != state.WordQueued {
		return // it was rendered again, after a damage
	}
	if v.again("queued", l.ID) {
		v.broken("2", "%s was queued twice", l.ID)
	}
	if l.Effect == nil {
		return
	}
	switch l.Effect.Kind {
	case "ack":
		if v.acks--; v.acks < 0 {
			v.broken("3", "%s without its own IDLE→PREP", l.ID)
		}
		v.rings.acked(v, l)
		v.patience.made(v, l)
	case "quiet":
		if v.works(l.At) {
			v.broken("3", "%s while work waits: %v %s", l.ID, sortedKeys(v.open), v.head)
		}
		if v.rings.silent {
			v.broken("3", "%s after a nudge of the mesh that no message followed", l.ID)
		}
	}
}

// recovered follows a recovery of the state. The history was applied, but an attempt
// that was under way is over. If only the history was left, the phase is IDLE
// (docs/design.md, "Recovery").
func (v *historyChecker) recovered(l line) {
	v.head = ""
	if strings.Contains(l.Reason, "like its copy") {
		v.phase, v.rings.by, v.owed, v.acks, v.patience.waits = "IDLE", "", owed{}, 0, false
	}
}

// restored follows a restore. All messages wait for a person, and the next turn of each is another
// one. The lines about the turn under way and the phase follow.
func (v *historyChecker) restored() {
	v.head, v.suspended, v.acks, v.owed, v.patience.waits = "", false, 0, owed{}, false
	clear(v.open)
	clear(v.keys)
}

// deliverable reads the file that a task line names.
func (w *World) deliverable(task line) (string, error) {
	data, err := os.ReadFile(filepath.Join(w.stateDir(), filepath.FromSlash(task.OutputBox), task.Deliverable))
	return string(data), err
}

// nudgesLeft returns the nudge files that are left.
func (w *World) nudgesLeft() []string {
	entries, err := os.ReadDir(filepath.Join(w.stateDir(), "nudges"))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".tmp") {
			names = append(names, e.Name())
		}
	}
	return names
}
