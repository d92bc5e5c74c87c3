package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// How full a session may be, in percent of its window: from warnAt on its agent
// is told, from compactAt on it is replaced by a summary before its next turn.
const (
	warnAt    = 75
	compactAt = 90
)

// mostVain is how many summaries of one session may come to nothing before no
// more are made by themselves: each costs as much as a turn.
const mostVain = 2

// LongestSummary is how long the making of a summary may take.
const LongestSummary = 5 * time.Minute

const (
	mostSummary = 16 << 10  // bytes of one that are kept
	mostSummed  = 256 << 10 // bytes of exchanges that one is made of
)

// summaryID stands for a turn in the attempt that makes a summary: there is none
// of that name, so what such an agent submits, asks or remembers is refused.
const summaryID = "compact"

// summaryDir is the folder of that attempt: one for all, so that whoever holds
// turn.lock finds what a dead runner left.
func summaryDir() string { return path.Join(store.TurnsDir, summaryID, "0") }

// full is how many percent of its window the session fills that goes on; 0 where
// nothing is known of it.
func (a *Agent) full(s state.State) int {
	if a.goesOn(s) == "" {
		return 0
	}
	window := cmp.Or(a.Window, s.Session.Window, turn.RunnerWindow(s.Session.Runner))
	if window <= 0 {
		return 0
	}
	return int(min(1000, s.Session.Context*100/window))
}

// holds is how many tokens a session holds after an attempt: as its agent says,
// else what it used in one call on the average.
func holds(s state.State, r turn.Result) int64 {
	if r.Context > 0 {
		return r.Context
	}
	used := state.Tokens(r.Usage)
	if r.Meter != "" {
		used = onTop(used, r.Meter, s.Purse.Meter)
	}
	return (used.Input + used.Output + used.CacheRead + used.CacheWrite) / int64(max(1, r.Calls))
}

// rotate replaces the session of s by a summary if it is nearly full, before the
// turn that s has dispatched. Whatever goes wrong, the turn has its session. The
// caller holds turn.lock.
func (a *Agent) rotate(ctx context.Context, s state.State) (state.State, error) {
	if a.full(s) < compactAt || s.Session.FailedSummaries >= mostVain {
		return s, nil
	}
	head := s.Turn
	guarded, release := a.guard(ctx, head)
	defer release()
	next, err := a.compact(guarded, s, head.TurnID)
	if err != nil {
		a.log("compact: the session is kept: %v", err)
	}
	if ctx.Err() != nil || next.Serial == 0 {
		return a.Store.Read()
	}
	return next, nil
}

// Compact replaces the agent's session, and all that was said since the last
// reset, by a summary with which its next context begins; the history keeps
// everything. It waits for a turn that runs, as long as patience lasts: then
// ErrBusy.
// ErrNothing: nothing was said since the last summary. After any other error
// everything is as it was.
func (a *Agent) Compact(ctx context.Context, patience time.Duration) (text string, err error) {
	if a.Turn == nil {
		return "", errors.New(`with runner = "none" this program keeps no context: there is nothing to compact`)
	}
	lock, err := a.waitForTurns(ctx, patience)
	if err != nil {
		return "", err
	}
	s, err := a.compactHeld(ctx)
	lock.Unlock()
	if err != nil {
		return "", err
	}
	if s.CanRun(a.Policy, a.Now()) { // who found turn.lock taken has left
		err = a.Detach()
	}
	return a.summaryText(s), err
}

// waitForTurns takes turn.lock.
func (a *Agent) waitForTurns(ctx context.Context, patience time.Duration) (*store.Lock, error) {
	over := time.NewTimer(patience)
	defer over.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		lock, err := a.Store.TryLock(store.TurnLock)
		if err != nil || lock != nil {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-over.C:
			return nil, fmt.Errorf("a turn runs: %w", ErrBusy)
		case <-tick.C:
		}
	}
}

// compactHeld is Compact for who holds turn.lock.
func (a *Agent) compactHeld(ctx context.Context) (state.State, error) {
	s, err := a.reap(ctx)
	if err != nil {
		return s, err
	}
	if s, err = a.Store.Read(); err != nil {
		return s, err
	}
	switch {
	case s.Halted():
		return s, errors.New("the agent is HALTED: compact after `resume`")
	case s.Tier(a.Policy, a.Now()) == state.TierDead:
		return s, errors.New("nothing may be spent any more: see `status`")
	}
	return a.compact(ctx, s, "")
}

// compact makes a summary of what s shows, and commits it. What the summary
// cost is counted whatever became of it. A crash before the commit changes
// nothing.
func (a *Agent) compact(ctx context.Context, s state.State, turnID string) (state.State, error) {
	e := state.Compacted{Session: a.goesOn(s), Through: through(s)}
	r, err := a.summarise(ctx, s)
	if errors.Is(err, ErrNothing) {
		return s, err
	}
	text := clip(strings.TrimSpace(a.Secrets.Redact(r.Text)), mostSummary)
	switch {
	case err != nil:
	case r.Status != turn.Success:
		err = fmt.Errorf("no summary was made: %s", r.Reason)
	case text == "":
		err = errors.New("the summary is empty")
	}
	events := a.summaryBill(s, turnID, r)
	if err != nil {
		e.Reason = err.Error()
		next, failed := a.commit(ctx, append(events, e)...)
		return next, errors.Join(err, failed)
	}
	e.Text, e.File = text, store.PayloadName(store.MessagesDir, "summary:"+store.NewID(), ".md")
	if err := a.Store.Keep(e.File, strings.NewReader(text+"\n")); err != nil {
		return s, fmt.Errorf("keep summary: %w", err)
	}
	next, err := a.commit(ctx, append(events, e)...)
	if err == nil && next.Compacted.File != e.File {
		_ = os.Remove(a.Store.Path(e.File)) // nothing names it
		err = errors.New("the memory was reset, or another session begun, while the summary was made: nothing was changed")
	}
	return next, err
}

// through is the last epoch whose exchange a summary made now tells of.
func through(s state.State) uint64 {
	if owned(s.Turn) {
		return s.Turn.Epoch - 1 // its message is still to come
	}
	return s.Epoch
}

// summaryBill is what a summary has cost.
func (a *Agent) summaryBill(s state.State, turnID string, r turn.Result) []state.Event {
	r.Settled = false // our own loop tells its calls one by one, but not this one
	bill := a.bill(s, state.Head{TurnID: cmp.Or(turnID, summaryID)}, r.Bill)
	for i, e := range bill {
		if spent, ok := e.(state.Spent); ok {
			spent.Spending.ID = summaryID + "." + store.NewID()
			bill[i] = spent
		}
	}
	return bill
}

// summarise has a summary made: by the program of [turn] summary, if there is
// one, of what was said; else by the agent in the session that is to end, which
// knows most; else by the agent in a fresh one.
func (a *Agent) summarise(ctx context.Context, s state.State) (turn.Result, error) {
	ask, err := a.SummaryPrompt()
	if err != nil {
		return turn.Result{}, err
	}
	config, session := *a.Turn, a.goesOn(s)
	if a.Summary != nil {
		config, session = *a.Summary, ""
	}
	if session == "" {
		said, err := a.material(s)
		if err != nil {
			return turn.Result{}, err
		}
		ask += "\n\n" + said
	}
	switch {
	case a.Summary == nil && config.Runner == turn.Exec:
		return turn.Result{}, errors.New("no program makes summaries: name one in [turn], such as summary = [\"llm\"]")
	case config.Runner == turn.API:
		config.Command = append(slices.Clone(config.Command), "--summary")
	}
	config.Timeout = min(cmp.Or(config.Timeout, turn.DefaultTimeout), LongestSummary)
	dir := a.Store.Path(summaryDir())
	if err := a.endSummary(ctx); err != nil {
		return turn.Result{}, err
	}
	if err := turn.Prepare(dir, nil, ""); err != nil {
		return turn.Result{}, err
	}
	at := turn.Attempt{
		Dir: dir, TurnID: summaryID, Prompt: []byte(ask + "\n"), Session: session, Extra: a.Rights.Task,
		Env: map[string]string{"AGENTSTATELOOP_CONFIG": a.Config, "AGENTSTATELOOP_HANDLE": a.Handle},
	}
	if a.Summary != nil {
		at.Extra = nil
	}
	if a.RunTurn != nil {
		return a.RunTurn(ctx, at)
	}
	return config.Run(ctx, at, nil)
}

// material is what was said since the last summary, and that, for a summary
// that is not made by who knows it.
func (a *Agent) material(s state.State) (string, error) {
	wide := *a
	wide.Recall = mostSummed
	r, err := wide.recall(s, new(past))
	if err != nil {
		return "", err
	}
	if r.text == "" {
		return "", ErrNothing
	}
	said := prompt.Fence("history", r.text)
	if r.summary != "" {
		said = prompt.Fence("summary", r.summary) + "\n\n" + said
	}
	return said, nil
}

// endSummary ends what a dead runner left of the making of a summary, and makes
// room for the next one. The caller holds turn.lock.
func (a *Agent) endSummary(ctx context.Context) error {
	dir := a.Store.Path(summaryDir())
	held, _, err := turn.Probe(dir)
	if err != nil {
		return err
	}
	if held {
		if _, err := turn.End(ctx, dir, turn.DefaultGrace); err != nil {
			return fmt.Errorf("end what makes a summary: %w", err)
		}
	}
	return os.RemoveAll(dir)
}

// summaryText is the summary that stands for what was said; "" where there is
// none, or none that can be read.
func (a *Agent) summaryText(s state.State) string {
	if s.Compacted.File == "" {
		return ""
	}
	data, err := os.ReadFile(a.Store.Path(s.Compacted.File))
	if err != nil {
		a.log("compact: the summary cannot be read, what it stands for is told: %v", err)
	}
	return strings.TrimSpace(string(data))
}
