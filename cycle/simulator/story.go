package simulator

import (
	"fmt"
	"strings"
	"time"
)

// Story is all that happens in one run. Every step says by itself what it does,
// so that any of them can be left out.
type Story struct {
	Seed  int64
	Steps []Step
}

// Step is one thing that happens.
type Step struct {
	Do     Deed
	Kind   string        // which variety of it
	For    time.Duration // how much time passes
	N      int           // chooses among what is there
	Faults []Fault       // strike the process that the step starts
	Wish   string        // of a message: what it asks the agent to do
	Inside []Fault       // strike what the agent calls from inside that turn
}

// Deed says what a step does.
type Deed string

// The deeds. Those of the first group start a process of the agent.
const (
	Wait       Deed = "wait"       // time passes, and cron fires what is in the table
	Poll       Deed = "poll"       // by hand
	Turns      Deed = "turns"      // a detached poll's runner
	Tell       Deed = "tell"       //
	Ring       Deed = "ring"       // `nudge`: recorded, then a poll without turns
	Halt       Deed = "halt"       //
	Go         Deed = "go"         // `resume`
	Stop       Deed = "stop"       //
	Transition Deed = "transition" // Kind: the state
	TopUp      Deed = "topup"      // `credit`
	Reset      Deed = "reset"      //
	Release    Deed = "release"    // `inbox release` of one of what is in quarantine; Kind: release or drop

	Reply   Deed = "reply"   // to a challenge; Kind: see answers
	Mail    Deed = "mail"    // arrives; Kind: see mails
	Message Deed = "message" // over the mesh; Kind: see messages
	Nudge   Deed = "nudge"   // Kind: file or mesh
	Report  Deed = "report"  // a peer answers a question; Kind: see reports
	Late    Deed = "late"    // an agent whose turn is over goes on; Kind: submit, ask, send, remember

	Clock    Deed = "clock"    // the machine's clock jumps by For
	Read     Deed = "read"     // a person opens a mail
	Renumber Deed = "renumber" // the mailbox gets another UIDVALIDITY
	Edit     Deed = "edit"     // a person edits the crontab; Kind: see edits
	Damage   Deed = "damage"   // the state file is hurt; Kind: see damages
	Outage   Deed = "outage"   // something is down for N processes; Kind: see outages
	MeshHalt Deed = "meshhalt" // HALT on the mesh; Kind: on or off
)

// Fault is what strikes a process at one of its points: that number At in its
// lane, or where Site is given, the one of that name that is number At. Both
// count from 0.
type Fault struct {
	Lane Lane
	Site string
	At   int
	What What
	Then *Step // of Meanwhile
}

// Lane is one strand of a process, whose points have an order that does not
// hang on the scheduler.
type Lane string

// The lanes.
const (
	Main   Lane = "main"
	ByMail Lane = "mail" // looking into the mailbox
	ByMesh Lane = "mesh" // looking into the mesh's mailbox
)

// What a fault does.
type What string

// The faults. What cannot happen at a point (the disk has no answer to lose) is
// the nearest that can.
const (
	Crash     What = "crash"      // the process is killed before the step
	CrashLate What = "crash-late" // it is killed when the server has answered, and never sees that
	Power     What = "power"      // as Crash, and what was not fsynced is lost
	Fail      What = "fail"       // ENOSPC, or the server refuses for now
	Lost      What = "lost"       // EIO, or the line drops before the answer arrives
	Half      What = "half"       // the line drops in the middle of the answer
	Stall     What = "stall"      // the server says nothing any more
	Cut       What = "cut"        // the line drops in the middle of the command
	Twice     What = "twice"      // the server says its answer twice
	ReadOnly  What = "read-only"  // EROFS, from here on to the end of the process
	Meanwhile What = "meanwhile"  // another step happens, from start to end
)

func (s Step) String() string {
	parts := []string{string(s.Do)}
	if s.Kind != "" {
		parts = append(parts, s.Kind)
	}
	if s.For != 0 {
		parts = append(parts, s.For.String())
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

// String is the story as a person reads it, a step a line.
func (s Story) String() string {
	var b strings.Builder
	for i, step := range s.Steps {
		fmt.Fprintf(&b, "%3d  %s\n", i, step)
	}
	return b.String()
}
