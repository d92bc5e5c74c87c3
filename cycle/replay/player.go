package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// The player plays the time of a replay. It has no rules: state.Step is the machine, the state names
// the times of the next polls, and an Explainer returns the events of a mail. The player moves the
// clock from one such time to the next, and makes the steps of a poll there, without its servers.

// player is one replay under way.
type player struct {
	Options
	ctx   context.Context
	state state.State
	mails []*mail.Stored // that have not come yet
	now   time.Time
	judge *cycle.Explainer
	lines map[time.Duration]cron.Times // the crontab line of each interval
	turn  *assumedTurn                 // nil: no turn runs
	stays time.Time                    // until then the last poll lingers
	story *story
}

// assumedTurn is the turn that runs now.
type assumedTurn struct {
	head   state.Head
	began  time.Time
	ends   time.Time
	figure Figure
}

// maxMore is how long a replay goes on after its end, until the agent is IDLE and has no work.
const maxMore = 24 * time.Hour

// play plays from the beginning to the end.
func (p *player) play() error {
	for {
		p.schedule()
		at, do, err := p.next()
		if err != nil {
			return err
		}
		if p.ctx.Err() != nil {
			return cycle.ErrInterrupted
		}
		if p.over(at) {
			p.advance(view.Later(p.now, p.To))
			return p.story.end(&p.state, p.now)
		}
		p.advance(at)
		if err := do(); err != nil {
			return err
		}
	}
}

// over reports whether the replay ends before at.
func (p *player) over(at time.Time) bool {
	if at.Before(p.To) {
		return false
	}
	rests := p.state.Phase == state.IDLE && p.turn == nil && len(p.state.Outbox) == 0 && len(p.mails) == 0 && !p.state.CanRun(p.Agent.Policy, at)
	return rests || !at.Before(p.To.Add(maxMore))
}

// advance moves the clock.
func (p *player) advance(to time.Time) {
	p.story.pass(p.state.Phase, to.Sub(p.now))
	p.now = to
}

// next returns the time of the next event, and the function that plays it.
func (p *player) next() (at time.Time, do func() error, err error) {
	if at, err = p.fires(); err != nil {
		return at, nil, err
	}
	do = p.pollIfDue
	sooner := func(t time.Time, then func() error) {
		if t.Before(at) {
			at, do = view.Later(t, p.now), then
		}
	}
	if i := slices.IndexFunc(p.mails, func(m *mail.Stored) bool { return m.At.After(p.now) }); i >= 0 && p.atOnce(p.mails[i].At) {
		sooner(p.mails[i].At, p.poll)
	}
	if row, ok := p.state.NextTimed(p.Agent.Policy, p.now); ok && p.atOnce(row) {
		sooner(row, p.pollWithoutCron)
	}
	if p.turn != nil {
		sooner(p.turn.ends, p.endTurn)
		if ack := p.state.AckWaits.Until; ack.After(p.now) {
			sooner(ack, p.makeAck)
		}
	}
	return at, do, nil
}

// fires returns when a crontab line fires next: the line of the interval, or the alarm line.
func (p *player) fires() (time.Time, error) {
	interval := p.state.Interval(p.Agent.Policy)
	line, known := p.lines[interval]
	if !known {
		text, err := cron.Expr(interval)
		if err != nil {
			return time.Time{}, err
		}
		if line, err = cron.ParseTimes(text); err != nil {
			return time.Time{}, fmt.Errorf("the crontab line of %v: %w", interval, err)
		}
		p.lines[interval] = line
	}
	at := line.Next(p.now, p.Agent.Policy.Location)
	if alarm := p.state.Schedule.Alarm; alarm.After(p.now) && alarm.Before(at) {
		at = alarm
	}
	return at, nil
}

// atOnce reports whether a process waits at a time and polls without cron: a listener, or the
// lingering poll of an engaged agent.
func (p *player) atOnce(at time.Time) bool {
	return p.Listen || p.state.Phase.Engaged() && !p.state.Halted() && at.Before(p.stays)
}

// schedule installs the alarm line that the state asks for.
func (p *player) schedule() {
	alarm, _ := p.state.NextAlarm(p.Agent.Policy, p.now)
	if alarm.Equal(p.state.Schedule.Alarm) {
		return
	}
	e := state.Scheduled{Alarm: alarm}
	if !alarm.IsZero() {
		e.AlarmLine = cron.AlarmExpr(alarm.In(cmp.Or(p.Agent.Policy.Location, time.UTC)))
	}
	p.step(e)
}

// pollIfDue polls as `poll --if-due` does.
func (p *player) pollIfDue() error {
	if p.state.Due(p.Agent.Policy, p.now) == "" {
		return nil
	}
	return p.poll()
}

// pollWithoutCron polls as a listener does, unless cron is about to.
func (p *player) pollWithoutCron() error {
	if cycle.DueWithoutCron(p.state, p.Agent.Policy, p.now) == "" {
		return nil
	}
	return p.poll()
}

// poll makes one poll.
func (p *player) poll() error {
	p.stays = p.now.Add(p.Agent.Schedule.Linger)
	p.makePrompts()
	events, taken, err := p.observe()
	if err != nil {
		return err
	}
	if err := p.story.beginPoll(p.state.Phase, taken); err != nil {
		return err
	}
	p.step(events...)
	p.story.tookCopies(&p.state)
	p.challenge()
	if err := p.perform(); err != nil {
		return err
	}
	p.makePrompts()
	if err := p.endStopped(); err != nil {
		return err
	}
	p.beginTurn()
	p.story.endPoll(p.now, p.state.Phase)
	return nil
}

// observe returns the events of the mails that have come, as far as a poll takes them, and the
// decisions about these mails.
func (p *player) observe() (events []state.Event, taken []decided, err error) {
	p.judge.State = p.state
	for room := cycle.RoomOf(p.state); len(p.mails) > 0 && !p.mails[0].At.After(p.now); {
		if room <= 0 { // an unread mail may be the operator's, so this is not silence
			return append(events, state.SourceFailed{Source: state.Mail}, state.Polled{}), taken, nil
		}
		d, found, err := p.decide(*p.mails[0])
		if err != nil {
			return nil, nil, err
		}
		p.mails = p.mails[1:]
		taken, events = append(taken, d), append(events, found...)
		if d.mine && d.gate == "" && d.unproven == nil {
			room--
		}
	}
	return append(events, state.SourceRead{Source: state.Mail}, state.Polled{}), taken, nil
}

// decide decides about a mail as a poll does.
func (p *player) decide(m mail.Stored) (decided, []state.Event, error) {
	p.story.sum.Mails++
	d := decided{Stored: m, key: fmt.Sprintf("mail:replay.1.%d", p.story.sum.Mails)}
	found, err := p.Mails.reader.Again(m)
	if err != nil {
		d.unproven = err // it was moved or removed meanwhile
		return d, nil, nil
	}
	judged, events, err := p.judge.Admit(p.ctx, cycle.FoundMail{Key: d.key, Raw: found.Raw, Size: found.Size, At: m.At})
	if err != nil {
		return d, nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	d.mine, d.unproven = judged.Addressee.Mine, judged.Unproven
	d.from, d.subject = judged.Message.Header.From, judged.Message.Header.Subject
	d.gate, d.reason = judged.Message.Gate, judged.Message.Reason
	return d, events, nil
}

// makePrompts makes the scheduled prompts that are due. It asks no program whether there is work.
func (p *player) makePrompts() {
	for _, f := range p.state.DuePrompts(p.Agent.Policy, p.now) {
		e := state.Prompted{Name: f.Name, At: f.At, Message: state.Message{Kind: state.KindAlways, Title: f.Name}}
		if f.Asks {
			e.Skipped = notAsked
		}
		p.step(e)
	}
}

// notAsked is why a prompt with a program is not made.
const notAsked = "a replay does not run its `if` program"

// challenge asks the operator about the mails that are due for it.
func (p *player) challenge() {
	last := ""
	for {
		key, due := p.state.ToChallenge(p.Agent.Policy, p.now)
		if !due || key == last {
			return
		}
		last = key
		mail := state.Effect{ID: "challenge." + key, Kind: state.Challenge, Channel: state.ByMail, To: p.Agent.Policy.Operator}
		p.step(state.Challenged{Key: key, Hash: state.HashToken(key), Mail: mail})
	}
}

// perform sends the due mails. The servers take them all.
func (p *player) perform() error {
	for {
		due := p.state.DueEffects(p.now)
		if len(due) == 0 {
			return nil
		}
		e := due[0]
		p.step(state.Sending{ID: e.ID})
		if err := p.story.sent(&p.state, e); err != nil {
			return err
		}
		p.step(state.Sent{ID: e.ID})
	}
}

// makeAck makes the ack that falls due while a turn runs.
func (p *player) makeAck() error {
	if !p.state.AckDue(p.now) {
		return nil
	}
	p.step()
	return p.perform()
}

// beginTurn begins the turn of the next message, unless one is under way.
func (p *player) beginTurn() {
	if p.turn != nil || !p.state.CanRun(p.Agent.Policy, p.now) {
		return
	}
	p.step(state.Claimed{})
	head := p.state.Turn
	if head.Status != state.HeadDispatched {
		return
	}
	p.step(state.Started{TurnID: head.TurnID, Epoch: head.Epoch})
	figure := p.Assumed.Of(p.state.Tier(p.Agent.Policy, p.now))
	p.stays = time.Time{} // the poll runs the turn instead
	p.turn = &assumedTurn{head: head, began: p.now, ends: p.now.Add(figure.Time), figure: figure}
}

// endStopped ends the turn if it was stopped.
func (p *player) endStopped() error {
	if p.turn == nil || p.state.Turn.Stop == "" {
		return nil
	}
	return p.endTurn()
}

// endTurn ends the turn with an answer, and begins the next one.
func (p *player) endTurn() error {
	t := p.turn
	p.turn = nil
	msg, _ := p.state.TurnMessage()
	var events []state.Event
	if cost := t.costAt(p.now); cost > 0 {
		events = append(events, state.Spent{TurnID: t.head.TurnID, Epoch: t.head.Epoch, From: msg.From, Spending: state.Spending{
			ID: fmt.Sprintf("%s.%d", t.head.TurnID, t.head.Epoch), Model: t.figure.Model, Cost: cost, Basis: state.BasisProvider,
		}})
	}
	ended := state.Ended{TurnID: t.head.TurnID, Epoch: t.head.Epoch, Outcome: state.Success, Reply: &state.Effect{
		ID: "reply." + t.head.TurnID, Kind: state.Reply, Channel: state.ByMail, To: p.Agent.Policy.Operator, TurnID: t.head.TurnID, Epoch: t.head.Epoch,
	}}
	if msg.Source == state.Mail {
		ended.Reply.To = msg.From
	}
	if p.state.Turn.Stop != "" {
		ended.Outcome, ended.Reason = state.Canceled, "stopped"
	}
	p.step(append(events, ended)...)
	if err := p.perform(); err != nil {
		return err
	}
	p.beginTurn()
	return nil
}

// costAt returns the cost of the turn if it ends now. A stopped turn has cost its part.
func (t *assumedTurn) costAt(now time.Time) state.Micros {
	if planned := t.ends.Sub(t.began); now.Before(t.ends) && planned > 0 {
		return state.Micros(float64(t.figure.Cost) * float64(now.Sub(t.began)) / float64(planned))
	}
	return t.figure.Cost
}

// step steps the machine and tells its history lines to the story.
func (p *player) step(events ...state.Event) {
	p.state = p.Agent.Step(p.state, events, p.Agent.Policy, p.now)
	p.story.tell(&p.state)
}
