package turn

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// supervisor follows one agent to its answer and to its end. All its parts belong
// to the goroutine of follow.
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

	events chan Event // read from stdout and not applied yet
	ending *ending    // why we ended the agent; nil if it ended by itself

	answer   *Result     // once it counts, before the agent has ended
	answered chan Result // receives it
}

// ending is why we ended the agent, and what that makes of the turn.
type ending struct {
	exit   Exit
	status Status
	reason string
}

// follow returns when the agent has ended and its pipes have nothing more, or
// when it has been abandoned.
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

// heard notes that the agent printed something.
func (s *supervisor) heard() {
	s.deadlines.lastOutput = time.Now()
	s.live.stale = true
}

// apply takes one event in.
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
		s.output.agent.add(&s.output.bill, e) // it counts whatever else comes
	}
	if s.watch != nil {
		s.updateLive()
		s.watch(Progress{Event: e, Live: s.live.Live})
	}
}

// takeIn takes in an event that comes before the answer counts.
func (s *supervisor) takeIn(e Event) {
	s.output.apply(e)
	if e.Kind == Done {
		s.deadlines.doneAt = s.deadlines.lastOutput
	}
	if s.activity.lifecycle == LifecycleWorking {
		s.output.done = nil // it went to work again
	}
}

// settling reports whether the agent is done and lives, and its answer does not
// count yet.
func (s *supervisor) settling() bool {
	return s.answer == nil && s.output.done != nil && s.process.runs() && s.ending == nil
}

// settle makes the answer count: what the agent says and leaves from now on is not
// part of it.
func (s *supervisor) settle() {
	res, err := s.outcome()
	if err != nil {
		return // an agent that runs has no such error
	}
	s.answer = &res
	s.updateLive()
	s.live.write(time.Now())
	s.answered <- res
}

// countdown returns when the agent will be ended if it prints nothing more, and
// what that makes of the turn.
func (s *supervisor) countdown() (time.Time, ending) {
	if s.output.done != nil {
		return s.deadlines.afterDone()
	}
	_, waiting := s.activity.waitingTools()
	return s.deadlines.atWork(waiting > 0)
}

// nextCheck returns when enforce must run again even if nothing happens.
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

// enforce does what is due: the deadlines, KILL after TERM, and the end of what
// outlived the agent.
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
		// The agent is done. What it left running in its group goes too.
		p.termedAt = now
		p.signal(unix.SIGTERM)
	}
	if s.live.due(now) {
		s.updateLive()
		s.live.write(now)
	}
}

// end begins to end the agent.
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

// over reports whether nothing is left to wait for.
func (s *supervisor) over(now time.Time) bool {
	return s.process.over(now, len(s.events) > 0)
}

// updateLive brings the live view up to date.
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
