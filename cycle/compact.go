package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// The fill levels of a session, in percent of its window. From warnAt on the agent is warned.
// From compactAt on a summary replaces the session before its next turn.
const (
	warnAt    = 75
	compactAt = 90
)

// maxFailedSummaries limits the failed summaries of one session. After that a summary is made
// only on request, because each costs as much as a turn.
const maxFailedSummaries = 2

// SummaryTimeout is the timeout for making a summary.
const SummaryTimeout = 5 * time.Minute

// summaryTimeout returns the timeout for making a summary, given that of a turn.
func summaryTimeout(turns time.Duration) time.Duration {
	return min(cmp.Or(turns, turn.DefaultTimeout), SummaryTimeout)
}

const (
	maxSummary    = 16 << 10  // bytes of a summary that are kept
	maxSummarized = 256 << 10 // bytes of exchanges that go into a summary
)

// summaryID takes the place of a turn id in the attempt that makes a summary. No turn has that
// id, so this agent cannot submit, ask or remember.
const summaryID = "compact"

// summaryDir returns the folder of that attempt. All summaries share it, so the process that
// holds turn.lock finds the leftovers of a dead runner.
func summaryDir() string { return path.Join(store.TurnsDir, summaryID, "0") }

// Compact replaces the agent's session with its operator, and everything said in it since the
// last reset, by a summary. The operator's next context begins with the summary. The history
// keeps everything. Compact waits up to patience for a running turn, and then returns ErrBusy.
// It returns ErrNothing if nobody spoke since the last summary. Any other error leaves
// everything as it was.
func (a *Agent) Compact(ctx context.Context, patience time.Duration) (text string, err error) {
	if a.Turn == nil {
		return "", errors.New(`runner = "none" keeps no context, so there is nothing to compact`)
	}
	lock, err := waitForTurns(ctx, a.Store, patience, checkInterval(a))
	if err != nil {
		return "", err
	}
	s, err := a.compactor(a.mainBackend()).compactNow(ctx)
	lock.Unlock()
	if err != nil {
		return "", err
	}
	if s.CanRun(a.Policy, a.Now()) { // a runner that found turn.lock taken has left
		err = a.Detach()
	}
	return a.recaller().summaryText(s.ConversationOf(s.NewestTalk(a.Policy))), err
}

// waitForTurns takes turn.lock. It returns ErrBusy if a turn still runs after
// patience.
func waitForTurns(ctx context.Context, st *store.Store, patience, checkEvery time.Duration) (*store.Lock, error) {
	over := time.NewTimer(patience)
	defer over.Stop()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		lock, err := st.TryLock(store.TurnLock)
		if err != nil || lock != nil {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-over.C:
			return nil, fmt.Errorf("a turn is running: %w", ErrBusy)
		case <-tick.C:
		}
	}
}

// compactor replaces a session by a summary.
type compactor struct {
	committer
	guard     turnGuard
	watchdog  *watchdog
	summaries *summaryMaker
	backend   backend // makes summaries, unless another program does
	sessions  sessions
	biller    *biller
}

// rotate replaces the session of the turn that s has dispatched by a summary, before that turn,
// if the session is nearly full. If that fails, the turn goes on with its session. The caller
// holds turn.lock.
func (c *compactor) rotate(ctx context.Context, s state.State) (state.State, error) {
	talk := s.TurnTalk(*c.policy)
	if !c.sessions.toCompact(c.sessions.of(s, talk)) {
		return s, nil
	}
	head := s.Turn
	guarded, release := c.guard.context(ctx, head)
	defer release()
	next, err := c.compact(guarded, s, talk, head.TurnID)
	if err != nil {
		c.logf("compact: the session is kept: %v", err)
	}
	if ctx.Err() != nil || next.Serial == 0 {
		return c.store.Read()
	}
	return next, nil
}

// compactNow is Compact for a caller that holds turn.lock.
func (c *compactor) compactNow(ctx context.Context) (state.State, error) {
	s, err := c.watchdog.reap(ctx)
	if err != nil {
		return s, err
	}
	if s, err = c.store.Read(); err != nil {
		return s, err
	}
	switch {
	case s.Halted():
		return s, errors.New("the agent is HALTED: run `agentstateloop resume` first")
	case s.Tier(*c.policy, c.now()) == state.TierDead:
		return s, errors.New("the budget is used up: see `agentstateloop status`")
	}
	return c.compact(ctx, s, s.NewestTalk(*c.policy), "")
}

// compact summarises one conversation as it is in s, and commits the summary. The cost of the
// summary counts even if it fails. A crash before the commit changes nothing.
func (c *compactor) compact(ctx context.Context, s state.State, talk state.Talk, turnID string) (state.State, error) {
	e := state.Compacted{Talk: talk, Session: c.sessions.of(s, talk).ID, Through: lastSummarizedEpoch(s)}
	r, err := c.summaries.summarise(ctx, s, talk)
	if errors.Is(err, ErrNothing) {
		return s, err
	}
	text := c.cleanSummary(r.Text)
	switch {
	case err != nil:
	case r.Status != turn.Success:
		err = fmt.Errorf("no summary was made: %s", r.Reason)
	case text == "":
		err = errors.New("the summary is empty")
	}
	events := c.bill(s, turnID, r)
	if r.Outage != nil && c.summaries.summary == nil {
		next, failed := c.journal.commit(ctx, append(events, c.backend.failed(*r.Outage))...)
		return next, errors.Join(err, failed)
	}
	if err != nil {
		e.Reason = err.Error()
		next, failed := c.journal.commit(ctx, append(events, e)...)
		return next, errors.Join(err, failed)
	}
	e.Text, e.File = text, store.PayloadName(store.MessagesDir, "summary:"+store.NewID(), ".md")
	if err := c.store.Keep(e.File, strings.NewReader(text+"\n")); err != nil {
		return s, fmt.Errorf("save summary: %w", err)
	}
	next, err := c.journal.commit(ctx, append(events, e)...)
	if err == nil && next.ConversationOf(talk).Compacted.File != e.File {
		_ = c.store.Remove(e.File) // no row names it
		err = errors.New("the memory was reset, or another session began, before the summary was complete: nothing was changed")
	}
	return next, err
}

// cleanSummary returns a summary as it is stored: redacted and truncated.
func (c *compactor) cleanSummary(summary string) string {
	return truncate(strings.TrimSpace(c.secrets.Redact(summary)), maxSummary)
}

// lastSummarizedEpoch returns the last epoch whose exchange is covered by a summary made now.
func lastSummarizedEpoch(s state.State) uint64 {
	if s.Turn.InAttempt() {
		return s.Turn.Epoch - 1 // the exchange of its message is still to come
	}
	return s.Epoch
}

// bill returns the events that count the cost of a summary.
func (c *compactor) bill(s state.State, turnID string, r turn.Result) []state.Event {
	r.Settled = false // the API runner reports the calls of a turn one by one, but not this one
	bill := c.biller.bill(s, state.Head{TurnID: cmp.Or(turnID, summaryID)}, r.Bill)
	for i, e := range bill {
		if spent, ok := e.(state.Spent); ok {
			spent.Spending.ID = summaryID + "." + store.NewID()
			bill[i] = spent
		}
	}
	return bill
}

// summaryMaker makes summaries, with a program or with the agent itself.
type summaryMaker struct {
	core
	turn     *turn.Config
	summary  *turn.Config // the program that makes summaries; nil: the agent does
	rights   Rights
	launcher launcher
	prompter *prompter
	sessions sessions
	recaller recaller // with room for all exchanges to be summarised
}

// summarise summarises one conversation and returns the result of the run. The program of
// [turn] summary, if one is configured, summarises the exchanges. Otherwise the agent does, in
// the session that is to end, or in a new one if it lacks a session.
func (m *summaryMaker) summarise(ctx context.Context, s state.State, talk state.Talk) (turn.Result, error) {
	question, err := m.prompter.summaryQuestion()
	if err != nil {
		return turn.Result{}, err
	}
	config, session, extra := *m.turn, m.sessions.of(s, talk).ID, m.rights.Summary
	if m.summary != nil {
		config, session, extra = *m.summary, "", nil
	}
	if session == "" {
		material, err := m.material(s, talk)
		if err != nil {
			return turn.Result{}, err
		}
		question += "\n\n" + material
	}
	switch {
	case m.summary == nil && config.Runner == turn.Exec:
		return turn.Result{}, errors.New("no summary program is configured: set one in [turn], such as summary = [\"llm\"]")
	case config.Runner == turn.API:
		config.Command = append(slices.Clone(config.Command), "--summary")
	}
	config.Timeout = summaryTimeout(config.Timeout)
	if err := endSummary(ctx, m.store); err != nil { // it checks the folders, too
		return turn.Result{}, err
	}
	dir := m.store.Path(summaryDir())
	if err := turn.Prepare(dir, nil, ""); err != nil {
		return turn.Result{}, err
	}
	defer turn.ClearContext(dir)
	program, attempt := &config, turn.Attempt{
		Dir: dir, TurnID: summaryID, Prompt: []byte(question + "\n"), Session: session, Extra: extra, Env: m.launcher.env(),
	}
	if m.summary == nil && view.IsShort(s.Tier(*m.prompter.policy, m.prompter.now())) {
		program, attempt = config.WithLow(attempt)
	}
	if _, release, err := m.mayBegin(ctx); err != nil {
		return turn.Result{}, err
	} else {
		release()
	}
	guarded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.fence(guarded, dir, cancel)
	r, err := m.launcher.launch(guarded, program, attempt)
	if r.Rest != nil {
		r = r.Rest()
	}
	return r, err
}

// material returns the exchanges of a conversation since the last summary, with that summary,
// for an agent whose session does not hold them.
func (m *summaryMaker) material(s state.State, talk state.Talk) (string, error) {
	r, err := m.recaller.recall(s, talk, exchangeCache{})
	if err != nil {
		return "", err
	}
	if len(r.exchanges) == 0 {
		return "", ErrNothing
	}
	fences := newFences()
	text := fences.Exchanges(r.exchanges)
	if r.summary != "" {
		text = fences.Summary(r.summary) + "\n\n" + text
	}
	return text, nil
}

// endSummary ends an agent that a dead runner left making a summary, and removes its folder.
// The caller holds turn.lock.
func endSummary(ctx context.Context, st *store.Store) error {
	if err := st.CheckFolders(summaryDir()); err != nil {
		return err
	}
	dir := st.Path(summaryDir())
	held, _, err := turn.Probe(dir)
	if err != nil {
		return err
	}
	if held {
		if _, err := turn.End(ctx, dir, turn.DefaultGrace); err != nil {
			return fmt.Errorf("end the summary agent: %w", err)
		}
	}
	return osfile.RemoveAll(dir)
}
