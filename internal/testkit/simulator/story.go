package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"agentstateloop/state"
)

// Story is everything that happens in one run. No step depends on an earlier one,
// so any step can be left out.
type Story struct {
	Seed  int64
	Steps []Step

	AckAfter time.Duration // [replies] ack_after
	ByThread bool          // [turn] conversation = "thread"
	Copies   bool          // [replies] sent
	Prompts  []ClockPrompt
	Carrier  string // of the mesh: OverNATS, or "" for HTTP
	Fallback bool   // [[turn.fallback]]

	Rollbacks bool   // the state may be replaced by an earlier one
	Sent      string // then: who keeps sent mail; see SentByServer

	StepState state.StepFunc // replaces state.Step of the agent, if set
}

// Step is one event of a story.
type Step struct {
	Do     Deed
	Kind   string        // the variety of the deed
	For    time.Duration // how much time passes, or how long a mail is ill
	Ill    string        // of a mail: how the server fails to hand it out; see illness
	N      int           // selects one of the existing things
	Faults []Fault       // strike the process that the step starts
	Wish   string        // the request of a message to the agent
	Inside []Fault       // strike the commands that the agent calls in that turn
}

// Deed is the action of a step.
type Deed string

// The deeds. Those of the first group start a process of the agent.
const (
	Wait       Deed = "wait"       // time passes, and cron runs the crontab
	Poll       Deed = "poll"       // a poll by hand
	Turns      Deed = "turns"      // the runner of a detached poll
	Tell       Deed = "tell"       //
	Ring       Deed = "ring"       // `nudge`: recorded, then a poll without turns
	Halt       Deed = "halt"       //
	Go         Deed = "go"         // `resume`
	Stop       Deed = "stop"       //
	Transition Deed = "transition" // Kind: the state
	TopUp      Deed = "topup"      // `credit`
	Reset      Deed = "reset"      //
	Outbox     Deed = "outbox"     // `outbox retry` or `outbox drop` of a row that was given up; Kind: retry or drop
	Release    Deed = "release"    // `inbox release` or `inbox drop` of an item of the quarantine; Kind: release, drop or restored

	Reply   Deed = "reply"   // an answer to a challenge; Kind: see answers
	Mail    Deed = "mail"    // a mail arrives; Kind: see mails
	Message Deed = "message" // a mesh message arrives; Kind: see messages
	Nudge   Deed = "nudge"   // Kind: file, or one of ringers
	Report  Deed = "report"  // a peer answers a question; Kind: answer, twice, unknown or stranger
	Event   Deed = "event"   // a program says something; Kind: file, post, or mail for `tell --mail`
	Late    Deed = "late"    // an agent whose turn is over calls a command; Kind: submit, ask, send, remember, suspend
	Answer  Deed = "answer"  // the operator answers a question, or somebody else does; Kind: see replyKinds
	Outside Deed = "outside" // work outside of a turn reports; Kind: local, mesh, other or unknown
	Burst   Deed = "burst"   // one sender writes in a row; Kind: mail, tell, message or mixed
	Junk    Deed = "junk"    // a mesh message arrives that cannot be decoded; Kind: see junk
	Forge   Deed = "forge"   // over NATS somebody forges a message; Kind: see forgeries
	Return  Deed = "return"  // a mail of ours comes back; Kind: see returned

	Clock    Deed = "clock"    // the clock of the machine jumps by For
	Read     Deed = "read"     // a person opens a mail; Kind: other if another agent does, and answers it
	Expunge  Deed = "expunge"  // a person deletes a mail for good
	Collect  Deed = "collect"  // from now on the agent waits until a sender is silent for For
	Rate     Deed = "rate"     // from now on N mails of the operator come in within an hour
	Renumber Deed = "renumber" // the mailbox gets another UIDVALIDITY
	Edit     Deed = "edit"     // a person edits the crontab; Kind: see edits
	Damage   Deed = "damage"   // the state file or a payload is damaged; Kind: see World.damage
	Hook     Deed = "hook"     // from now on a hook answers in another way; Kind: see hookModes
	Outage   Deed = "outage"   // something is down for N processes; Kind: see World.startOutage
	MeshHalt Deed = "meshhalt" // HALT on the mesh; Kind: on or off
	Rollback Deed = "rollback" // the state is replaced by that of N commits ago; Kind: see World.rollBack
)

// Fault strikes a process at one of its points: at point number At of the lane,
// or, if Site is set, at point number At of that name. Both count from 0.
type Fault struct {
	Lane Lane
	Site string
	At   int
	What What
	Then *Step // the step of Meanwhile
}

// Lane is one strand of a process. The order of the points in a lane does not
// depend on the scheduler.
type Lane string

// The lanes.
const (
	Main   Lane = "main"
	ByMail Lane = "mail"  // reading the mailbox
	ByMesh Lane = "mesh"  // reading the mailbox on the mesh
	Aside  Lane = "aside" // announcements on it, which the process does not await
)

// What is the effect of a fault.
type What string

// The effects of faults. An effect that is impossible at a point becomes the most
// similar possible one: the disk, for example, has no answer to lose.
const (
	Crash     What = "crash"      // the process is killed before the step
	CrashLate What = "crash-late" // the process is killed after the server has answered, and never sees the answer
	Power     What = "power"      // like Crash, and everything that was not fsynced is lost
	Fail      What = "fail"       // ENOSPC, or a temporary refusal by the server
	Lost      What = "lost"       // EIO, or the connection breaks before the answer arrives
	Half      What = "half"       // the connection breaks in the middle of the answer
	Stall     What = "stall"      // the server stops answering
	Cut       What = "cut"        // the connection breaks in the middle of the command
	Twice     What = "twice"      // the server sends its answer twice
	ReadOnly  What = "read-only"  // EROFS, from here to the end of the process
	Meanwhile What = "meanwhile"  // another step happens completely
)

func (s Step) String() string {
	parts := []string{string(s.Do)}
	if s.Kind != "" {
		parts = append(parts, s.Kind)
	}
	if s.For != 0 {
		parts = append(parts, s.For.String())
	}
	if s.Ill != "" {
		parts = append(parts, "ill: "+s.Ill)
	}
	if s.N != 0 {
		parts = append(parts, fmt.Sprintf("#%d", s.N))
	}
	if s.Wish != "" {
		parts = append(parts, "do="+s.Wish)
	}
	for _, f := range s.Faults {
		parts = append(parts, f.String())
	}
	for _, f := range s.Inside {
		parts = append(parts, "inside"+f.String())
	}
	return strings.Join(parts, " ")
}

func (f Fault) String() string {
	where := string(f.Lane)
	if f.Site != "" {
		where = f.Site
	}
	if f.What == Meanwhile {
		return fmt.Sprintf("[at %s %d meanwhile: %s]", where, f.At, f.Then)
	}
	return fmt.Sprintf("[%s at %s %d]", f.What, where, f.At)
}

// String returns the story for people, one step per line.
func (s Story) String() string {
	var b strings.Builder
	if s.Carrier != "" {
		fmt.Fprintf(&b, "     the mesh is over %s\n", s.Carrier)
	}
	if s.ByThread {
		fmt.Fprintln(&b, "     each mail thread is a conversation")
	}
	if s.Copies {
		fmt.Fprintln(&b, "     copies of sent mail are made")
	}
	if s.Rollbacks {
		fmt.Fprintf(&b, "     the state is rolled back; sent mail is kept by %q\n", s.Sent)
	}
	if s.Fallback {
		fmt.Fprintln(&b, "     a second provider answers while the first cannot")
	}
	if s.AckAfter > 0 {
		fmt.Fprintf(&b, "     acks wait for %s\n", s.AckAfter)
	}
	for _, c := range s.Prompts {
		fmt.Fprintf(&b, "     prompt %+v\n", c)
	}
	for i, step := range s.Steps {
		fmt.Fprintf(&b, "%3d  %s\n", i, step)
	}
	return b.String()
}

// Shrink removes steps and faults from a story as long as fails still reports true, for at most
// patience. The rest is necessary for the failure.
func Shrink(s Story, patience time.Duration, fails func(Story) bool) Story {
	end := time.Now().Add(patience)
	for shorter := true; shorter && time.Now().Before(end); {
		shorter = false
		for size := max(len(s.Steps)/2, 1); size >= 1; size /= 2 {
			for at := 0; at < len(s.Steps) && time.Now().Before(end); {
				cut := s
				cut.Steps = slices.Delete(slices.Clone(s.Steps), at, min(at+size, len(s.Steps)))
				if !fails(cut) {
					at += size
					continue
				}
				s, shorter = cut, true
			}
		}
		for i := range s.Steps {
			for _, simpler := range s.Steps[i].simpler() {
				if !time.Now().Before(end) {
					break
				}
				tried := s
				tried.Steps = slices.Clone(s.Steps)
				tried.Steps[i] = simpler
				if fails(tried) {
					s, shorter = tried, true
					break
				}
			}
		}
	}
	return s
}

// simpler returns variants of the step with one thing less.
func (s Step) simpler() []Step {
	var list []Step
	for i := range s.Faults {
		t := s
		t.Faults = slices.Delete(slices.Clone(s.Faults), i, i+1)
		list = append(list, t)
		if then := s.Faults[i].Then; then != nil {
			for _, simpler := range then.simpler() {
				t.Faults = slices.Clone(s.Faults)
				t.Faults[i].Then = &simpler
				list = append(list, t)
			}
		}
	}
	if len(s.Inside) > 0 {
		t := s
		t.Inside = nil
		list = append(list, t)
	}
	if s.Wish != "" && s.Wish != "answer" {
		t := s
		t.Wish = "answer"
		list = append(list, t)
	}
	return list
}

// Counts holds how often things happened. Points counts, by name, the points at
// which a fault could strike.
type Counts struct {
	Processes int
	Attempts  int
	Points    map[string]int
	Sometimes map[string]int // rare events that some runs should reach
}

type counters struct {
	mu sync.Mutex
	Counts
}

func (c *counters) point(site string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Points[site]++
}

func (c *counters) happened(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Sometimes[what]++
}

// began counts a process or an attempt.
func (c *counters) began(what *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*what++
}

func (c *counters) read() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := c.Counts
	read.Points, read.Sometimes = maps.Clone(c.Points), maps.Clone(c.Sometimes)
	return read
}

// Add adds the counts of another run.
func (c *Counts) Add(other Counts) {
	c.Processes += other.Processes
	c.Attempts += other.Attempts
	if c.Points == nil {
		c.Points, c.Sometimes = map[string]int{}, map[string]int{}
	}
	for site, n := range other.Points {
		c.Points[site] += n
	}
	for what, n := range other.Sometimes {
		c.Sometimes[what] += n
	}
}
