package simulator

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/state"
)

// These checks hold the rules for acks that wait (docs/design.md, "Phases").

// patienceChecker follows the ack that waits: it is made at the first commit at its time
// or after it, unless its answer was there before.
type patienceChecker struct {
	waits bool
	key   string // of the message that it is about, or ""
	until time.Time
}

// read follows a line about an ack.
func (c *patienceChecker) read(v *historyChecker, l line) {
	if l.What != state.WordWaits {
		v.happened("an ack was not needed: " + l.Reason)
		c.waits = false
		return
	}
	if l.Ack == nil || v.acks < 1 {
		v.broken("3", "an ack waits without its own IDLE→PREP: %s", l)
		return
	}
	if want := l.At.Add(v.world.story.AckAfter); !l.Ack.Until.Equal(want) {
		v.broken("3", "an ack waits until %s, want %s", l.Ack.Until, want)
	}
	c.waits, c.key, c.until = true, l.Key, l.Ack.Until
	v.happened("an ack waited")
}

// made checks an ack that is made.
func (c *patienceChecker) made(v *historyChecker, l line) {
	switch {
	case v.world.story.AckAfter == 0:
		return
	case !c.waits:
		v.broken("3", "%s was made, and none waited", l.ID)
	case l.Effect.Cause != c.key:
		v.broken("3", "%s is about %q, want %q", l.ID, l.Effect.Cause, c.key)
	case l.At.Before(c.until) && !v.world.clock.wasWrong():
		v.broken("3", "%s was made at %s, before %s", l.ID, l.At, c.until)
	case v.keys[c.key] != "" && v.ended[v.keys[c.key]] != "":
		v.broken("3", "%s was made after its answer", l.ID)
	}
	c.waits = false
	v.happened("an ack was sent because the answer took longer")
}

// committed checks the state after the last commit.
func (c *patienceChecker) committed(v *historyChecker) {
	held := v.halted.any() || v.world.clock.wasWrong()
	switch {
	case !c.waits || held:
	case v.phase == "IDLE":
		v.broken("3", "serial %d: an ack waits in IDLE", v.serial)
	case !v.at.Before(c.until):
		v.broken("3", "serial %d, at %s: the ack of %s was not made", v.serial, v.at, c.until)
	case v.keys[c.key] != "" && v.ended[v.keys[c.key]] != "":
		v.broken("3", "serial %d: an ack waits although %s is answered", v.serial, c.key)
	}
}

// checkAckFirst checks that no ack is sent after its answer. The caller must hold mu.
func (r *record) checkAckFirst(o outgoing, h history) {
	queued, known := h.queued[effectOf(o.id)]
	if o.kind != "ack" || !known || queued.Effect.Cause == "" {
		return
	}
	for _, task := range h.tasks[queued.Effect.Cause] {
		for _, reply := range r.mailed(replyKind + task.TurnID) {
			r.world.violate("3", "%s was sent after %s, the answer to its cause", o.id, reply.id)
		}
	}
}

// takeTime lets one turn in three take longer than an ack waits, and another one less.
func (p *process) takeTime(ctx context.Context, a *livingAgent, marker string) {
	n, err := strconv.Atoi(strings.TrimLeft(marker, "EMPT"))
	if err != nil || p.world.story.AckAfter == 0 || n%3 == 0 || ctx.Err() != nil {
		return
	}
	if n%3 == 1 {
		p.world.clock.pass(p.world.story.AckAfter / 4)
		return
	}
	s, _ := p.world.state()
	p.world.clock.pass(p.world.story.AckAfter * 3 / 2)
	if !s.AckWaits.Until.IsZero() {
		p.awaitAck(ctx, a)
	}
}

// awaitAck gives the runner time to send the ack whose time has come. The runner looks twice a
// second, and only the state shows that it sent the ack.
func (p *process) awaitAck(ctx context.Context, a *livingAgent) {
	w, strikes := p.world, p.world.strikes.Load()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s, _ := w.state()
		switch {
		case s.AckWaits.Until.IsZero():
			w.count.happened("an ack was sent during a turn by the process that ran it")
			return
		case p.isDead():
			p.leaveOrphan(a)
		case ctx.Err() != nil, w.strikes.Load() != strikes, s.HaltedHere, s.HaltedMesh:
			return
		case time.Now().After(end):
			w.violate("3", "the process that runs a turn has not sent the ack whose time has come")
			return
		}
	}
}

// rings follows the agents that wake ours through the mesh, and the mails that this may cause: for
// each sender one ack an hour, unless a message followed, and no quiet (docs/design.md, "Phases").
type rings struct {
	by     string               // who woke the agent, while no message has followed
	mailed map[string]time.Time // by sender
	silent bool                 // silence has ended a phase that such a nudge began
}

func (r *rings) nudge(v *historyChecker, l line) {
	if l.Source != "mesh" {
		r.by = ""
		return
	}
	if l.From != handle && !slices.Contains(peers, l.From) {
		v.broken("4", "a nudge of %s was accepted", l.From)
	}
	if v.phase == "IDLE" {
		r.by = l.From
	}
}

func (r *rings) followed() {
	delete(r.mailed, r.by)
	r.by = ""
}

func (r *rings) moved(l line) {
	r.silent = l.New == "IDLE" && r.by != "" && !strings.HasPrefix(l.Reason, "by hand")
	if l.New != "PREP" {
		r.by = ""
	}
}

// acked checks an ack. If the clock was set back, an hour may have any length.
func (r *rings) acked(v *historyChecker, l line) {
	if r.by == "" {
		return
	}
	v.happened("a nudge of another agent was acknowledged")
	before, known := r.mailed[r.by]
	if known && l.At.Sub(before) < time.Hour && !v.world.clock.wasSetBack() {
		v.broken("3", "%s woke the agent at %s and %s without a message, and both were mailed", r.by, before, l.At)
	}
	if r.mailed == nil {
		r.mailed = map[string]time.Time{}
	}
	r.mailed[r.by] = l.At
}
