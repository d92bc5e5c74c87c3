package turn

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settleFor is how long a pipe that a grandchild keeps open is read after
	// the agent itself has ended; settleMost, if what was read is not yet taken in.
	drainFor  = time.Second
	drainMost = 10 * time.Second

	stderrTail = 8 << 10
)

// ending is why we ended the agent, and what that makes of the turn.
type ending struct {
	exit   Exit
	status Status
	reason string
}

// supervisor follows one process to its end. All its fields belong to the
// goroutine of follow.
type supervisor struct {
	c     Config
	a     Attempt
	agent agent
	p     *process
	log   *eventLog
	watch func(Progress)

	queue   chan Event // what was read and not yet applied
	machine *Activity
	live    Live
	shown   time.Time // when live.json was last written
	stale   bool      // live.json is behind

	answer  spool
	segment strings.Builder // the text since the last tool
	faults  tail            // what the agent called an error
	stderr  tail
	done    *Event    // the last Done, unless it went to work again
	doneAt  time.Time // when it came
	bill    Bill
	context int64 // tokens that the session held when it was last done
	window  int64 // and how many its model can hold
	calls   int   // to its model that ended in tools
	tooling bool  // tools were called since the last result of one
	session string
	lastOut time.Time

	wall    time.Time
	exited  time.Time // when the agent itself ended
	drained bool      // both pipes came to their end
	ending  *ending   // nil: it ended by itself
	termed  time.Time // when TERM was sent
	killed  time.Time // when KILL was sent
	left    bool      // something outlived KILL, or left the group with the pipes
	family  processFamily
	looked  time.Time // when the family was last looked at
	lives   bool      // what was seen then
}

func newSupervisor(c Config, a Attempt, kind agent, p *process, log *eventLog, watch func(Progress)) *supervisor {
	now := time.Now()
	s := &supervisor{
		c: c, a: a, agent: kind, p: p, log: log, watch: watch,
		queue:   make(chan Event, 64),
		machine: NewActivity(nil),
		answer:  spool{path: filepath.Join(a.Dir, answerName), maxMem: c.MaxText, maxFile: c.MaxOutput},
		faults:  tail{max: stderrTail},
		stderr:  tail{max: stderrTail},
		session: a.Session,
		lastOut: now,
		wall:    now.Add(c.Timeout),
		family:  processFamily{group: p.pid},
		stale:   true,
	}
	s.live = Live{TurnID: a.TurnID, Epoch: a.Epoch, Runner: c.Runner, PID: p.pid, Started: now.UTC(), Session: a.Session}
	return s
}

// follow returns when the agent has ended and nothing more is to be had from
// its pipes, or when it has been given up.
func (s *supervisor) follow(ctx context.Context) {
	quit := make(chan struct{})
	events := s.queue
	noise := make(chan []byte)
	go s.c.Secrets.Guarded(func() { s.readStdout(quit) })()
	go s.c.Secrets.Guarded(func() { s.readStderr(noise, quit) })()
	defer close(quit)
	defer s.p.closePipes()

	exited, stop := s.p.exited, ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !s.over(time.Now()) {
		timer.Reset(time.Until(s.wake()))
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				break
			}
			s.apply(e)
		case b, ok := <-noise:
			if !ok {
				noise = nil
				break
			}
			s.stderr.Write(b)
			s.heard()
		case <-exited:
			exited = nil
			s.exited = time.Now()
		case <-stop:
			stop = nil
			if s.exited.IsZero() {
				s.end(ending{ExitStopped, Canceled, "stopped"})
			}
		case <-timer.C:
		}
		s.drained = events == nil && noise == nil
		s.enforce(time.Now())
	}
	if s.ending == nil {
		s.machine.MarkIdle()
	}
	s.show(time.Now(), true)
}

func (s *supervisor) readStdout(quit <-chan struct{}) {
	defer close(s.queue)
	emit := func(e Event) {
		select {
		case s.queue <- e:
		case <-quit:
		}
	}
	out := s.c.Secrets.Reader(s.p.stdout)
	if s.agent.parse == nil {
		readText(out, emit)
		return
	}
	readLines(out, s.agent.parse(), emit)
}

func (s *supervisor) readStderr(noise chan<- []byte, quit <-chan struct{}) {
	defer close(noise)
	errs := s.c.Secrets.Reader(s.p.stderr)
	for {
		buf := make([]byte, 4<<10)
		n, err := errs.Read(buf)
		if n > 0 {
			select {
			case noise <- buf[:n]:
			case <-quit:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// heard notes a sign of life.
func (s *supervisor) heard() {
	s.lastOut = time.Now()
	s.machine.Touch()
	s.stale = true
}

// apply takes one event in.
func (s *supervisor) apply(e Event) {
	s.heard()
	s.machine.Apply(e)
	s.log.event(s.lastOut, e)
	s.agent.add(&s.bill, e)
	switch e.Kind {
	case SessionStart:
		if validSession(e.Session) {
			s.session, s.live.Session = e.Session, e.Session
		}
	case TextDelta:
		if s.answer.n > 0 {
			s.answer.write(s.agent.separator)
		}
		s.answer.write(e.Text)
		if s.segment.Len() > 0 {
			s.segment.WriteString(s.agent.separator)
		}
		if s.segment.Len() <= s.c.MaxText { // one longer than that is not used
			s.segment.WriteString(e.Text)
		}
	case ToolUse:
		s.segment.Reset()
		if !s.tooling {
			s.calls++ // tools called together are one answer of the model
		}
		s.tooling = true
	case ToolResult:
		s.tooling = false
	case Error:
		fmt.Fprintln(&s.faults, e.Text)
	case Done:
		s.done, s.doneAt = &e, s.lastOut
		s.live.CostUSD = e.CostUSD
		if e.Context > 0 {
			s.context, s.window = e.Context, e.Window
		}
		if e.Failed {
			fmt.Fprintln(&s.faults, e.Text)
		}
	}
	if s.done != nil && s.machine.Lifecycle() == LifecycleWorking {
		s.done = nil
	}
	if s.watch != nil {
		s.view(time.Now())
		s.watch(Progress{Event: e, Live: s.live})
	}
}

// countdown is when the agent will be ended if nothing more happens, and how.
func (s *supervisor) countdown() (time.Time, ending) {
	if s.done != nil {
		at := s.doneAt.Add(s.c.Linger)
		if s.wall.Before(at) {
			at = s.wall
		}
		return at, ending{ExitIdle, Success, "lingered after it was done"}
	}
	at, why := s.wall, ending{ExitError, TimedOut, fmt.Sprintf("ran longer than %v", s.c.Timeout)}
	if _, waiting := s.machine.Tools(); s.c.Silence > 0 && waiting == 0 {
		if quiet := s.lastOut.Add(s.c.Silence); quiet.Before(at) {
			at, why = quiet, ending{ExitError, TimedOut, fmt.Sprintf("printed nothing for %v", s.c.Silence)}
		}
	}
	return at, why
}

// wake is when enforce must look again, though nothing happens.
func (s *supervisor) wake() time.Time {
	now := time.Now()
	var at time.Time
	switch {
	case !s.exited.IsZero():
		at = now.Add(pollEvery)
	case !s.killed.IsZero():
		at = s.killed.Add(s.c.Grace)
	case !s.termed.IsZero():
		at = s.termed.Add(s.c.Grace)
	default:
		at, _ = s.countdown()
	}
	if next := s.shown.Add(liveEvery); s.stale && next.Before(at) {
		at = next
	}
	return at
}

// enforce does what is due: the countdowns, KILL after TERM, the rest of the
// group after its leader.
func (s *supervisor) enforce(now time.Time) {
	switch {
	case !s.killed.IsZero():
	case !s.termed.IsZero():
		if now.Before(s.termed.Add(s.c.Grace)) {
			break
		}
		s.killed = now
		s.signal(unix.SIGKILL)
	case s.exited.IsZero():
		if at, why := s.countdown(); !now.Before(at) {
			s.end(why)
		}
	case s.settled(now) && s.familyLives(now):
		// The agent is done; what it left running in its group goes too.
		s.termed = now
		s.signal(unix.SIGTERM)
	}
	s.show(now, false)
}

// end begins to end the agent.
func (s *supervisor) end(why ending) {
	if s.ending != nil {
		return
	}
	s.ending = &why
	s.termed = time.Now()
	s.machine.MarkKilled()
	s.stale = true
	s.signal(unix.SIGTERM)
}

// signal reaches the family. Once the leader is reaped the group's number is
// only ours while the group lives.
func (s *supervisor) signal(sig unix.Signal) {
	if lives := s.family.refresh(); lives || s.exited.IsZero() {
		_ = s.family.signal(sig) // one that cannot be signalled outlives its grace, which is told
	}
}

// settled says whether no more output is worth waiting for.
func (s *supervisor) settled(now time.Time) bool {
	if s.exited.IsZero() {
		return false
	}
	if s.drained {
		return true
	}
	wait := drainFor
	if len(s.queue) > 0 {
		wait = drainMost
	}
	return !now.Before(s.exited.Add(wait))
}

// familyLives looks at the family, at most every pollEvery: a survivor that
// prints without end would have us do nothing else.
func (s *supervisor) familyLives(now time.Time) bool {
	if !now.Before(s.looked.Add(pollEvery)) {
		s.looked, s.lives = now, s.family.refresh()
	}
	return s.lives
}

// over says whether there is nothing more to wait for.
func (s *supervisor) over(now time.Time) bool {
	if !s.killed.IsZero() && !now.Before(s.killed.Add(s.c.Grace)) {
		s.left = true
		return true
	}
	if !s.settled(now) || s.familyLives(now) {
		return false
	}
	s.left = !s.drained
	return true
}

// view brings the live view up to date.
func (s *supervisor) view(now time.Time) {
	s.live.Lifecycle, s.live.State = s.machine.Lifecycle(), s.machine.Current()
	s.live.Tool, s.live.WaitingTools = s.machine.Tools()
	s.live.LastOutput = s.lastOut.UTC()
	at, why := s.countdown()
	s.live.KillAt, s.live.KillFor = at.UTC(), why.reason
	if !s.exited.IsZero() || s.ending != nil {
		s.live.KillAt, s.live.KillFor = time.Time{}, ""
	}
}

// show writes live.json if it is behind, but not too often.
func (s *supervisor) show(now time.Time, last bool) {
	if !last && (!s.stale || now.Before(s.shown.Add(liveEvery))) {
		return
	}
	s.view(now)
	s.shown, s.stale = now, false
	_ = writeLive(s.a.Dir, s.live) // a view only; the turn goes on without
}
