package turn

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// supervisor follows one agent to its answer and to its end. The goroutine of follow owns all its
// fields.
type supervisor struct {
	config    Config
	attempt   Attempt
	process   *process
	activity  activity
	output    output
	deadlines deadlines
	live      liveView
	log       *eventLog
	watch     func(Progress)

	events chan Event // read from stdout, not applied yet
	ending *ending    // why we ended the agent; nil if it ended by itself

	answer   *Result     // the settled answer of an agent that still ran; otherwise nil
	answered chan Result // receives the settled answer
}

// ending is our reason for ending the agent, with the resulting exit and status.
type ending struct {
	exit   Exit
	status Status
	reason string
}

// follow returns when the agent has ended and its pipes are drained, or when the agent has been
// abandoned.
func (s *supervisor) follow(ctx context.Context) {
	quit := make(chan struct{})
	events := s.events
	stderr := make(chan []byte)
	go s.config.Secrets.Guarded(func() { s.readStdout(quit) })()
	go s.config.Secrets.Guarded(func() { s.readStderr(stderr, quit) })()
	defer close(quit)
	defer s.process.closePipes()

	exited, stop := s.process.exited, ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !s.over(time.Now()) {
		timer.Reset(time.Until(s.nextCheck(time.Now())))
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				break
			}
			s.apply(e)
		case b, ok := <-stderr:
			if !ok {
				stderr = nil
				break
			}
			s.output.stderr.Write(b)
			s.heard()
		case <-exited:
			exited = nil
			s.process.exitedAt = time.Now()
		case <-stop:
			stop = nil
			if s.process.runs() {
				s.end(ending{ExitStopped, Canceled, "stopped"})
			}
		case <-timer.C:
		}
		s.process.drained = events == nil && stderr == nil
		s.enforce(time.Now())
	}
	s.activity.exited(s.exitWord())
	s.updateLive()
	s.live.write(time.Now())
	if s.watch != nil {
		s.watch(Progress{Live: s.live.Live})
	}
}

func (s *supervisor) readStdout(quit <-chan struct{}) {
	defer close(s.events)
	emit := func(e Event) {
		select {
		case s.events <- e:
		case <-quit:
		}
	}
	out := s.config.Secrets.Reader(s.process.stdout)
	if s.output.agent.parse == nil {
		readText(out, emit)
		return
	}
	readLines(out, s.output.agent.parse(), emit)
}

func (s *supervisor) readStderr(stderr chan<- []byte, quit <-chan struct{}) {
	defer close(stderr)
	in := s.config.Secrets.Reader(s.process.stderr)
	for {
		buf := make([]byte, 4<<10)
		n, err := in.Read(buf)
		if n > 0 {
			select {
			case stderr <- buf[:n]:
			case <-quit:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// heard records that the agent printed something.
func (s *supervisor) heard() {
	s.deadlines.lastOutput = time.Now()
	s.live.stale = true
}

// apply processes one event.
func (s *supervisor) apply(e Event) {
	s.heard()
	s.activity.apply(e)
	s.log.event(s.deadlines.lastOutput, e)
	if e.Kind == Done {
		s.live.CostUSD = e.CostUSD
	}
	if s.answer == nil {
		s.takeIn(e)
	} else {
		s.output.agent.add(&s.output.bill, e) // costs count even after the answer
	}
	if s.watch != nil {
		s.updateLive()
		s.watch(Progress{Event: e, Live: s.live.Live})
	}
}

// takeIn processes an event that arrives before the answer counts.
func (s *supervisor) takeIn(e Event) {
	s.output.apply(e)
	if e.Kind == Done {
		s.deadlines.doneAt = s.deadlines.lastOutput
	}
	if s.activity.lifecycle == LifecycleWorking {
		s.output.done = nil // it resumed work
	}
}

// settling reports whether the agent is done but still runs, and its answer does not count yet.
func (s *supervisor) settling() bool {
	return s.answer == nil && s.output.done != nil && s.process.runs() && s.ending == nil
}

// settle makes the answer count: later text and files are not part of it.
func (s *supervisor) settle() {
	res, err := s.outcome()
	if err != nil {
		return // a running agent has no such error
	}
	s.answer = &res
	s.updateLive()
	s.live.write(time.Now())
	s.answered <- res
}

// countdown returns the deadline of an agent that prints no more output, and the ending at that
// deadline.
func (s *supervisor) countdown() (time.Time, ending) {
	if s.output.done != nil {
		return s.deadlines.afterDone()
	}
	_, waiting := s.activity.waitingTools()
	return s.deadlines.atWork(waiting > 0)
}

// nextCheck returns when enforce must run again if no event arrives.
func (s *supervisor) nextCheck(now time.Time) time.Time {
	at, ok := s.process.nextCheck(now)
	if !ok {
		at, _ = s.countdown()
	}
	if next := s.deadlines.settled(); s.settling() && next.Before(at) {
		at = next
	}
	if next := s.live.written.Add(liveEvery); s.live.stale && next.Before(at) {
		at = next
	}
	return at
}

// enforce applies the deadlines, sends KILL after TERM, and ends processes that outlived the
// agent.
func (s *supervisor) enforce(now time.Time) {
	p := s.process
	if s.settling() && len(s.events) == 0 && !now.Before(s.deadlines.settled()) {
		s.settle()
	}
	switch {
	case !p.killedAt.IsZero():
	case !p.termedAt.IsZero():
		if !now.Before(p.termedAt.Add(p.grace)) {
			p.killedAt = now
			p.signal(unix.SIGKILL)
		}
	case p.runs() && !p.cancelled.IsZero():
		if !now.Before(p.cancelled.Add(p.grace)) {
			p.termedAt = now
			p.signal(unix.SIGTERM)
		}
	case p.runs():
		if at, why := s.countdown(); !now.Before(at) {
			s.end(why)
		}
	case p.settled(now, len(s.events) > 0) && p.familyLives(now):
		// The agent has ended. End the rest of its family, too.
		p.termedAt = now
		p.signal(unix.SIGTERM)
	}
	if s.live.due(now) {
		s.updateLive()
		s.live.write(now)
	}
}

// end starts to end the agent. The first reason stays.
func (s *supervisor) end(why ending) {
	if s.ending != nil {
		return
	}
	s.ending = &why
	s.activity.exited(s.exitWord())
	s.live.stale = true
	if s.output.agent.hosted {
		s.process.cancelled = time.Now()
		s.process.signal(cancelSignal)
		return
	}
	s.process.termedAt = time.Now()
	s.process.signal(unix.SIGTERM)
}

// over reports whether follow can return.
func (s *supervisor) over(now time.Time) bool {
	return s.process.over(now, len(s.events) > 0)
}

// updateLive updates the live view.
func (s *supervisor) updateLive() {
	l := &s.live
	l.Session = s.output.session
	l.Lifecycle, l.Reason, l.State = s.activity.lifecycle, s.activity.reason, s.activity.state
	l.Tool, l.WaitingTools = s.activity.waitingTools()
	l.LastOutput = s.deadlines.lastOutput.UTC()
	at, why := s.countdown()
	l.KillAt, l.KillFor = at.UTC(), why.reason
	if !s.process.runs() || s.ending != nil {
		l.KillAt, l.KillFor = time.Time{}, ""
	}
}

// deadlines hold the times at which a running agent is ended.
type deadlines struct {
	timeout, silence, linger, settle time.Duration // as in Config

	wall       time.Time // the hard end of the attempt
	lastOutput time.Time
	doneAt     time.Time // time of the last Done
}

func newDeadlines(c Config, now time.Time) deadlines {
	return deadlines{timeout: c.Timeout, silence: c.Silence, linger: c.Linger, settle: c.Settle, wall: now.Add(c.Timeout), lastOutput: now}
}

// afterDone returns the deadline of an agent that has reported that it is done.
func (d *deadlines) afterDone() (time.Time, ending) {
	at := d.doneAt.Add(d.linger)
	if d.wall.Before(at) {
		at = d.wall
	}
	return at, ending{ExitIdle, Success, "lingered after it was done"}
}

// settled returns when the answer of a done agent counts, unless the agent resumes work first.
func (d *deadlines) settled() time.Time { return d.doneAt.Add(d.settle) }

// atWork returns the deadline of a working agent. The agent may be silent while one of its tools
// runs.
func (d *deadlines) atWork(inTool bool) (time.Time, ending) {
	if d.silence > 0 && !inTool {
		if quiet := d.lastOutput.Add(d.silence); quiet.Before(d.wall) {
			return quiet, ending{ExitError, TimedOut, fmt.Sprintf("printed nothing for %v", d.silence)}
		}
	}
	return d.wall, ending{ExitError, TimedOut, fmt.Sprintf("ran longer than %v", d.timeout)}
}
