package cycle_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// spendings returns what the history says about money, one line each.
func (h *fixture) spendings() string {
	h.t.Helper()
	var all []string
	for _, l := range h.lines(state.LineSpend) {
		all = append(all, fmt.Sprintf("%v by %s of %s for %s", l.Spending.Cost, l.Spending.Basis, l.Spending.Model, l.From))
	}
	return strings.Join(all, "\n")
}

func (h *fixture) wantSpendings(want ...string) {
	h.t.Helper()
	if got := h.spendings(); got != strings.Join(want, "\n") {
		h.t.Errorf("spent:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// The cost of an attempt is in the commit that ends it, on its task line.
func TestCostIsCommittedWithTurnEnd(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, "init s1; answer hello\n")
	h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(time.Minute)
	h.wantSpendings("$0.01 by provider of claude for " + operator)
	spend, task := h.lines(state.LineSpend)[0], h.wantTasks(state.Success)[0]
	if spend.Serial != task.Serial || spend.TurnID != task.TurnID || task.Row.Cost != 10_000 {
		t.Errorf("spent in %+v, ended in %+v", spend, task)
	}
	status := h.status()
	if status.Spend.DayUSD != 0.01 || status.Spend.MonthUSD != 0.01 || status.Tier != state.TierNormal || status.Spend.LeftUSD != nil {
		t.Errorf("status %+v, %s", status.Spend, status.Tier)
	}
}

// The cost of failed and suspended attempts is counted.
func TestFailedAndSuspendedAttemptsAreBilled(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"failed":    `init s1; echo '{"type":"result","subtype":"error_max_turns","total_cost_usd":0.02}'; exit 1`,
		"refused":   `init s1; echo '{"type":"result","is_error":true,"result":"Invalid API key","total_cost_usd":0.02}'; exit 1`,
		"suspended": `us ask ` + peer + ` "which commit?" 10m >ids; init s1; echo '{"type":"result","subtype":"success","result":"I have asked.","total_cost_usd":0.02}'`,
		"submitted": `us submit "there"; init s1; echo '{"type":"result","subtype":"success","result":"done","total_cost_usd":0.02}'`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newClaudeFixture(t, script+"\n")
			h.receive(letter{id: "<one@example.com>"})
			h.pollAfter(time.Minute)
			h.wantSpendings("$0.02 by provider of claude for " + operator)
		})
	}
}

// The sessions of two principals alternate, and the tokens of each count once.
func TestSessionTokensCountOnce(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, `id=c-$(wc -l <runs)
case "$*" in *"resume c-"*) id=c-${*#*resume c-}; id=${id%% *};; esac
echo run >>"runs.$id"; n=$(wc -l <"runs.$id")
echo "{\"type\":\"thread.started\",\"thread_id\":\"$id\"}"
echo '{"type":"item.completed","item":{"type":"agent_message","text":"hello"}}'
echo "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":$((n*n*1000)),\"output_tokens\":$((n*100))}}"
`)
	h.agent.Turn.Runner = turn.Codex
	h.agent.Turn.Command = append(h.agent.Turn.Command, "-m", "gpt-4.1")
	h.agent.Prices = turn.NewPrices(nil, 1)
	var want []string
	for _, usd := range []string{"$0.0028", "$0.0068", "$0.0108"} { // as in one session
		for _, from := range []string{operator, peer} {
			if from == operator {
				h.receive(letter{id: "<" + store.NewID() + "@example.com>"})
			} else {
				h.post(mesh.Message{Text: "hello"})
			}
			h.pollAfter(time.Minute)
			want = append(want, usd+" by table of gpt-4.1 for "+from)
		}
	}
	h.wantSpendings(want...)
	for _, session := range []string{"resume c-1", "resume c-2"} {
		if n := strings.Count(h.workFile("argv"), session); n != 2 {
			t.Errorf("%s: %d times, want 2: %s", session, n, h.workFile("argv"))
		}
	}
}

// billOf writes what the agent of the current attempt has reported of its costs
// before its runner died.
func (h *fixture) billOf(usd float64) {
	h.t.Helper()
	head := h.state().Turn
	dir := h.agent.Store.Path(filepath.Join(store.TurnsDir, head.TurnID, fmt.Sprint(head.Epoch)))
	check(h.t, os.MkdirAll(dir, 0o700))
	text := fmt.Sprintf("{\"kind\":\"start\",\"runner\":\"claude\"}\n{\"kind\":\"done\",\"text\":\"x\",\"cost_usd\":%g}\n", usd)
	check(h.t, os.WriteFile(filepath.Join(dir, "events.jsonl"), []byte(text), 0o600))
}

// The known cost of a dead runner's attempt counts. A turn that has used up its budget is not
// tried again.
func TestDeadRunnerIsBilled(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Turn.Runner = turn.Claude
	h.agent.Policy.Budget.Turn = 50_000
	h.receive(letter{id: "<one@example.com>"})
	h.collect()
	for _, usd := range []float64{0.03, 0.04} {
		h.startAndDie()
		h.billOf(usd)
		h.clock.advance(time.Minute)
		h.collect()
	}
	h.wantSpendings("$0.03 by provider of claude for "+operator, "$0.04 by provider of claude for "+operator)
	task := h.wantTasks(state.Failed)[0]
	if task.Row.Cost != 70_000 || !strings.Contains(task.Reason, "the budget of one turn, $0.05, is used up") {
		t.Errorf("task: %+v", task)
	}
	h.onlyReply()
}

// A turn whose budget is used up does not wait for an answer, because it could
// not go on.
func TestTurnWithoutMoneyIsNotSuspended(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, "us ask "+peer+" \"which commit?\" 10m >ids; init s1; answer 'I have asked.'\n")
	h.agent.Policy.Budget.Turn = 10_000
	h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(time.Minute)
	task := h.wantTasks(state.Partial)[0]
	wantWords(t, task.Reason, "the budget of one turn, $0.01, is used up, so the turn does not wait for its answers")
}

// Allowance returns how much a turn may spend, and Spend counts each call.
func TestAllowanceAndSpend(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Prices = turn.NewPrices(nil, 1)
	h.agent.Policy.Budget = state.Budget{HasCredit: true, Credit: 3 * state.Dollar, Turn: state.Dollar, Low: 2_300_000, Critical: 100_000}
	var in cycle.Inside
	want := func(tier state.Tier, left state.Micros, what string) {
		t.Helper()
		got, err := h.agent.Allowance(in)
		check(t, err)
		if got.Tier != tier || got.Left != left || !got.Limited || !strings.Contains(got.What, what) {
			t.Errorf("allowed: %+v, want %v, %v of %s", got, tier, left, what)
		}
	}
	spend := func(id, model string, input int64, usd float64) error {
		return h.agent.Spend(t.Context(), in, state.Spending{ID: id, Model: model, Tokens: state.Tokens{Input: input}}, usd)
	}
	h.agent.RunTurn = func(_ context.Context, at turn.Attempt) (turn.Result, error) {
		in = cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		want(state.TierNormal, state.Dollar, "the budget of one turn")
		check(t, spend("c1", "gpt-4o", 100_000, 0))
		check(t, spend("c1", "gpt-4o", 100_000, 0))
		want(state.TierNormal, 750_000, "the budget of one turn")
		check(t, spend("c2", "gpt-4o", 100_000, 0.5))
		want(state.TierLow, 250_000, "the budget of one turn")
		check(t, spend("c3", "gpt-4o", 40_000, -5))
		check(t, spend("c4", "gpt-4o", 40_000, math.NaN()))
		check(t, spend("c5", "mystery", 100_000, 1e9))
		want(state.TierLow, 0, "the budget of one turn")
		return turn.Result{Status: turn.Success, Text: "done", Exit: turn.ExitClean}, nil
	}
	h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(time.Minute)
	h.wantSpendings(
		"$0.25 by table of gpt-4o for "+operator,
		"$0.50 by provider of gpt-4o for "+operator,
		"$0.10 by table of gpt-4o for "+operator,
		"$0.10 by table of gpt-4o for "+operator,
		"$1.50 by dearest of mystery for "+operator)
	lines := h.lines(state.LineSpend)
	for i, odd := range []string{"", "", "cost of $-5 is not plausible", "cost of $NaN is not plausible", "cost of $1e+09 is not plausible"} {
		if reason := lines[i].Reason; !strings.Contains(reason, odd) || odd == "" && reason != "" {
			t.Errorf("spending %d: %q, want %q", i+1, reason, odd)
		}
	}
	// The turn is over: what its process still spends counts all the same.
	if err := spend("c6", "gpt-4o", 4, 0.25); !errors.Is(err, cycle.ErrStale) {
		t.Errorf("a spending of a turn that is over: %v", err)
	}
	if _, err := h.agent.Allowance(in); !errors.Is(err, cycle.ErrStale) {
		t.Errorf("an allowance for a turn that is over: %v", err)
	}
	if total := h.state().Purse.Total; total != 2_700_000 {
		t.Errorf("in all: %v", total)
	}
}

// In tier critical the rest of the budget is for the operator. A running turn of another agent
// makes no further request.
func TestPeerTurnInTierCritical(t *testing.T) {
	t.Parallel()
	for who, left := range map[string]state.Micros{"peer": 0, "operator": 50_000} {
		h := newAwakeFixture(t)
		h.agent.Policy.Budget = state.Budget{HasCredit: true, Credit: state.Dollar, Low: 500_000, Critical: 100_000}
		h.agent.RunTurn = func(_ context.Context, at turn.Attempt) (turn.Result, error) {
			in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
			check(t, h.agent.Spend(t.Context(), in, state.Spending{ID: "c1"}, 0.95))
			got, err := h.agent.Allowance(in)
			check(t, err)
			if got.Tier != state.TierCritical || got.Left != left || (left == 0) != strings.Contains(got.What, "reserved for the operator") {
				t.Errorf("the %s's turn is allowed %+v", who, got)
			}
			return turn.Result{Status: turn.Success, Text: "done", Exit: turn.ExitClean}, nil
		}
		if who == "peer" {
			h.post(mesh.Message{Text: "hello"})
		} else {
			h.receive(letter{id: "<one@example.com>"})
		}
		h.pollAfter(time.Minute)
		h.wantTasks(state.Success)
	}
}

// The registry and the prompt show the tier.
func TestPromptHasTier(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, "init s1; answer hello\n")
	wantTier := func(want state.Tier) {
		t.Helper()
		if got := h.presence().Tier; got != want {
			t.Errorf("the registry shows %q, want %q", got, want)
		}
	}
	wantTier(state.TierNormal)
	h.agent.Policy.Budget = state.Budget{HasCredit: true, Credit: 15_000, Low: 20_000, Critical: 1_000}
	h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(time.Minute)
	wantWords(t, h.prompt(), "Money is short ($0.0150 left)")
	h.receive(letter{id: "<two@example.com>"})
	h.receive(letter{id: "<three@example.com>"})
	h.pollAfter(time.Minute)
	h.pollAfter(time.Minute) // nothing else has changed: the third one waits
	wantTier(state.TierDead)
	calls := h.countCalls("/")
	h.pollAfter(30 * time.Minute)
	h.pollAfter(30 * time.Minute)
	if n := calls.Load(); n > 3 { // the mailbox twice, and IDLE
		t.Errorf("a dead agent made %d calls", n)
	}
}

// While money is short a cheaper program or model runs, and the prompt says so. It does not say
// so if there is nothing cheaper.
func TestLowCompute(t *testing.T) {
	for _, c := range []struct {
		name       string
		low        turn.Low
		want, says string
	}{
		{"another command", turn.Low{Command: []string{"./cheap"}}, "cheap: --rights", "A cheaper program runs you."},
		{"more arguments", turn.Low{Args: []string{"--model", "small"}}, "usual: --rights --model small", "A cheaper model runs you."},
		{"nothing", turn.Low{}, "usual: --rights", "($0.0150 left). Nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newAwakeFixture(t)
			for _, name := range []string{"usual", "cheap"} {
				check(t, testkit.WriteProgram(filepath.Join(h.blueprint.Dir, name), "#!/bin/sh\ncat >prompt\necho \""+name+": $*\" >ran\necho done\n"))
			}
			h.agent.Turn.Command, h.agent.Turn.Low = []string{"./usual"}, c.low
			h.agent.Rights.Operator = []string{"--rights"}
			h.agent.Policy.Budget = state.Budget{HasCredit: true, Credit: 15_000, Low: 20_000, Critical: 1_000}
			h.receive(letter{id: "<one@example.com>"})
			h.poll()
			if got := h.workFile("ran"); got != c.want {
				t.Errorf("it ran %q, want %q", got, c.want)
			}
			if p := h.workFile("prompt"); !strings.Contains(p, c.says) || h.agent.Turn.Cheaper() != strings.Contains(p, "cheaper") {
				t.Errorf("the prompt is\n%s", p)
			}
			h.agent.Policy.Budget.Critical = 18_000
			check(t, os.Remove(filepath.Join(h.blueprint.Dir, "ran")))
			h.receive(letter{id: "<zero@example.com>"})
			h.pollAfter(time.Minute)
			if got := h.workFile("ran"); got != c.want || !strings.Contains(h.workFile("prompt"), "almost gone") {
				t.Errorf("in tier critical it ran %q, with\n%s", got, h.workFile("prompt"))
			}
			h.agent.Policy.Budget = state.Budget{}
			h.receive(letter{id: "<two@example.com>"})
			h.pollAfter(time.Minute)
			if got := h.workFile("ran"); got != "usual: --rights" {
				t.Errorf("with money it ran %q", got)
			}
		})
	}
}
