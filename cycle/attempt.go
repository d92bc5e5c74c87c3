package cycle

import (
	"cmp"
	"context"
	"errors"
	"path"
	"strconv"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
	"agentstateloop/turn/relay"
)

// attempter makes one attempt at a message.
type attempter struct {
	committer
	turn      *turn.Config
	granter   granter
	guard     turnGuard
	launcher  launcher
	prompter  *prompter
	recaller  recaller
	compactor *compactor
	deliverer *deliverer
	ender     *turnEnder
	sessions  sessions
	biller    *biller
}

// runTurn makes one attempt at the message that s has just dispatched, and commits its outcome.
// It returns when the agent's process has ended. If the turn is delivered while the process
// still runs, runTurn calls answered at that point.
func (at *attempter) runTurn(ctx context.Context, s state.State, p exchangeCache, answered func(state.State) error) (state.State, error) {
	head := s.Turn
	msg, _ := s.Message(head.Key)
	m, err := readMessage(at.store, head, msg)
	if err != nil {
		return at.deliverer.deliver(ctx, s, m, turn.Result{Status: turn.Failed, Reason: err.Error()})
	}
	own := promptOf(at.granter.prompts, msg)
	m.ownSession = own.Fresh
	m.receive(at.store, "", files.AttachmentsFolder)
	m.collect(at.store, s.Collected())
	m.reports, m.reportFiles = at.prompter.reports(head.Waiting)
	m.reportFiles = append(m.reportFiles, at.prompter.operatorAnswers(head.Waiting)...)
	if head.Resumed {
		m.earlierOutput = earlierOutput(at.store, path.Dir(head.Box), head.Waiting)
	}
	if !msg.Fresh && !m.ownSession {
		if s, err = at.compactor.rotate(ctx, s); err != nil {
			return s, err
		}
	}
	if o, out := s.OutageOf(at.ender.backend.name(), at.compactor.now()); out && s.Turn.Owns(head.TurnID, head.Epoch) {
		return at.journal.commit(ctx, state.GivenBack{TurnID: head.TurnID, Epoch: head.Epoch, Reason: o.Reason})
	}
	if !head.Resumed && s.Turn.Owns(head.TurnID, head.Epoch) && !at.biller.affords(s, msg) {
		return at.journal.commit(ctx, state.GivenBack{TurnID: head.TurnID, Epoch: head.Epoch, Reason: "the summary of its session used up the budget"})
	}
	past, err := at.recaller.recallFor(at.sessions, s, at.prompter.policy.TalkOf(msg), p, m.subject, m.text)
	if err != nil {
		return at.ender.returnMessage(ctx, s, err)
	}
	boxes := at.boxes(head, m)
	data := at.prompter.data(s, m, past)
	data.Earlier = boxes.Earlier != ""
	prompt, err := at.prompter.render(data)
	if err != nil {
		return at.ender.returnMessage(ctx, s, err)
	}
	if err := at.store.CheckFolders(m.dir()); err != nil {
		return at.ender.returnMessage(ctx, s, err)
	}
	dir := at.store.Path(m.dir())
	boxes.Context = m.context(data.History, prompt.System)
	if err := boxes.Prepare(dir); err != nil {
		return at.ender.returnMessage(ctx, s, err)
	}
	session := at.sessions.of(s, at.prompter.policy.TalkOf(msg)).ID
	if msg.Fresh || m.ownSession {
		session = ""
	}
	s, err = at.journal.commit(ctx, state.Started{TurnID: head.TurnID, Epoch: head.Epoch, Instead: at.ender.backend.instead(s)})
	if err != nil || !s.Turn.Owns(head.TurnID, head.Epoch) {
		clearContext(at.store, m.dir())
		return s, err
	}

	env := at.launcher.env()
	if head.Resumed || len(m.reports) > 0 {
		env["AGENTSTATELOOP_RESUMED"] = "1" // the prompt holds reports that the turn has not seen
	}
	if at.seat != nil {
		env["AGENTSTATELOOP_TERM"] = strconv.FormatUint(s.Seat.Term, 10)
	}
	if _, release, err := at.mayBegin(ctx); err != nil {
		return at.ender.returnMessage(ctx, s, err)
	} else {
		release()
	}
	guarded, release := at.guard.context(ctx, head)
	program, attempt := at.turn, turn.Attempt{
		Dir: dir, TurnID: head.TurnID, Epoch: head.Epoch,
		Prompt: []byte(prompt.Stdin), Session: session, Extra: at.granter.rights.arguments(msg),
		Env: env, Backend: at.ender.backend.name(), MayBeSilent: msg.MayBeSilent(), Grants: at.granter.grants(head, msg, m.reports),
	}
	program, attempt = own.applyTo(program, attempt)
	if at.ender.backend.low || view.IsShort(state.Tier(data.Tier)) {
		program, attempt = program.WithLow(attempt)
	}
	if at.ender.backend.low {
		program = program.WithLowFlag()
	}
	result, err := at.launcher.launch(guarded, program, attempt)
	defer release()
	switch {
	case errors.Is(err, errLost), err == nil && result.Status != turn.Success && at.evicted(dir):
		clearContext(at.store, m.dir())
		return s, nil // another attempt owns the turn: send and write no more
	case err != nil && ctx.Err() != nil:
		return at.ender.releaseTurn(ctx, head)
	case err != nil:
		return at.ender.returnMessage(ctx, s, err)
	}
	if result.Rest == nil {
		return at.ender.conclude(ctx, m, result)
	}
	return at.linger(ctx, m, result, answered)
}

// linger delivers the answer of an agent whose process still runs, and returns when the process
// has ended (docs/design.md, "Turns").
func (at *attempter) linger(ctx context.Context, m turnMessage, result turn.Result, answered func(state.State) error) (state.State, error) {
	s, ok, err := at.ender.answer(ctx, m, result)
	if err == nil && ok {
		err = answered(s)
	}
	last := result.Rest()
	switch {
	case !ok && err != nil:
		return s, err
	case !ok:
		return at.ender.conclude(ctx, m, last)
	}
	s, failed := at.ender.agentExited(ctx, m.head, m.msg.From, last.Bill)
	return s, errors.Join(err, failed)
}

// boxes returns the output folder that the attempt continues. A resumed attempt keeps the files
// that the earlier attempt left on purpose. So does an attempt of our own loop, whose steps
// record which files are finished. For any other retry the old files are evidence: a
// half-written file must not go out with the answer.
func (at *attempter) boxes(h state.Head, m turnMessage) turn.FolderContents {
	if h.Resumed {
		if h.Box == "" {
			return turn.FolderContents{}
		}
		return turn.FolderContents{Carry: at.store.Path(h.Box)}
	}
	if at.store.CheckFolders(m.dir()) != nil {
		return turn.FolderContents{} // runTurn repeats the check, and fails the attempt
	}
	earlier := turn.EarlierOutput(at.store.Path(m.dir()))
	if at.turn.Runner == turn.API {
		return turn.FolderContents{Carry: earlier}
	}
	return turn.FolderContents{Earlier: earlier}
}

// arguments returns the arguments for a turn that m causes.
func (r Rights) arguments(m state.Message) []string {
	switch m.Cause() {
	case state.CauseOperator:
		return r.Operator
	case state.CauseSelf:
		return r.Self
	case state.CauseEvent:
		return r.Event
	case state.CauseTask:
		return r.Task
	}
	return r.Peer
}

// launcher starts the agent's program and follows it to its end.
type launcher struct {
	config, handle string
	standIn        func(context.Context, turn.Attempt) (turn.Result, error) // replaces the program; nil: run the program itself
	relay          func(context.Context, Inside, relay.Request) (string, error)
	explain        func(error) (hint, kind string, exit int) // nil: no hints
}

// launch makes one attempt with a configuration, as turn.Config.Answer does.
func (l launcher) launch(ctx context.Context, c *turn.Config, at turn.Attempt) (turn.Result, error) {
	if l.standIn != nil {
		return l.standIn(ctx, at)
	}
	if c.Box != nil {
		return l.runWithRelay(ctx, c, at)
	}
	return c.Answer(ctx, at, turn.NewFeed(at.Dir).Watch)
}

// env returns the environment variables with which the agent's program finds this agent.
func (l launcher) env() map[string]string {
	return map[string]string{"AGENTSTATELOOP_CONFIG": l.config, "AGENTSTATELOOP_HANDLE": l.handle}
}

// errLost is the cause for which a runner stops an agent that has lost its turn.
var errLost = errors.New("another attempt owns the turn now")

// checkEvery is the default of Agent.CheckEvery.
const checkEvery = 500 * time.Millisecond

// checkInterval returns how often the processes of an agent read the state.
func checkInterval(a *Agent) time.Duration { return cmp.Or(a.CheckEvery, checkEvery) }

// turnGuard watches, while an agent runs, whether the turn is still its own.
type turnGuard struct {
	core
	checkEvery time.Duration
}

// context returns a context that ends when another attempt owns the turn of head, or when the
// turn is to be stopped. This includes the time when the agent lingers after its answer. The
// caller must call release.
func (g turnGuard) context(ctx context.Context, head state.Head) (guarded context.Context, release func()) {
	guarded, cancel := context.WithCancelCause(ctx)
	g.fence(guarded, g.store.Path(store.AttemptDir(head.TurnID, head.Epoch)), cancel)
	done := make(chan struct{})
	go g.secrets.Guarded(func() {
		tick := time.NewTicker(g.checkEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-guarded.Done():
				return
			case <-tick.C:
			}
			s, err := g.store.Read()
			switch {
			case err != nil:
				continue // an unreadable state is not a lost turn
			case !s.Turn.Owns(head.TurnID, head.Epoch) && !s.Turn.LingersAt(head.TurnID, head.Epoch):
				cancel(errLost)
			case s.Turn.Stop != "" || s.Turn.Finish && s.Turn.Submitted != "":
				cancel(turn.ErrStopped)
			}
		}
	})()
	return guarded, func() { close(done); cancel(nil) }
}
