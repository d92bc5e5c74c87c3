package turn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResumedBill checks the bill of a resumed session, whose earlier cost each CLI reports
// differently.
func TestResumedBill(t *testing.T) {
	const (
		older = `{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5","claude_code_version":"2.1.197"}
{"type":"result","subtype":"success","result":"a","session_id":"s-1","total_cost_usd":0.02,"usage":{"input_tokens":7,"output_tokens":5}}
`
		between = `{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5","claude_code_version":"2.1.278"}
{"type":"result","subtype":"success","result":"a","session_id":"s-1","total_cost_usd":5.02,"usage":{"input_tokens":7,"output_tokens":5}}
`
		newer = `{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5","claude_code_version":"2.1.329"}
{"type":"result","subtype":"success","result":"a","session_id":"s-1","total_cost_usd":5.02,"usage":{"input_tokens":7,"output_tokens":5},"modelUsage":{"claude-sonnet-4-5":{"costUSD":5.02}},"model_usage_since_last_result":{"claude-sonnet-4-5":{"costUSD":0.015625},"claude-haiku-4-5":{"costUSD":0.00390625}}}
`
		twice = newer + `{"type":"result","subtype":"success","result":"b","session_id":"s-1","total_cost_usd":5.52,"usage":{"input_tokens":7,"output_tokens":5},"model_usage_since_last_result":{"claude-sonnet-4-5":{"costUSD":0.5}}}
`
		codex = `{"type":"thread.started","thread_id":"c-1"}
{"type":"item.completed","item":{"type":"agent_message","text":"a"}}
{"type":"turn.completed","usage":{"input_tokens":1000,"output_tokens":50}}
`
	)
	claude := Usage{Input: 7, Output: 5}
	for name, c := range map[string]struct {
		runner, stream string
		want           Bill
	}{
		"claude until 2.1.276": {Claude, older, Bill{Model: "claude-sonnet-4-5", CostUSD: 0.02, Usage: claude}},
		"claude from 2.1.277":  {Claude, between, Bill{Model: "claude-sonnet-4-5", Usage: claude}},
		"claude since":         {Claude, newer, Bill{Model: "claude-sonnet-4-5", CostUSD: 0.01953125, Usage: claude}},
		"claude of no version": {Claude, strings.Replace(newer, `"claude_code_version":"2.1.329"`, `"x":1`, 1),
			Bill{Model: "claude-sonnet-4-5", CostUSD: 0.01953125, Usage: claude}},
		"claude in two turns": {Claude, twice, Bill{Model: "claude-sonnet-4-5", CostUSD: 0.51953125, Usage: claude}},
		"codex":               {Codex, codex, Bill{Meter: "c-1", Usage: Usage{Input: 1000, Output: 50}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeCLI(t, c.runner, c.stream, "")
			b.Session = "s-1"
			if res := b.run(); res.Bill != c.want {
				t.Errorf("the result has %+v, want %+v", res.Bill, c.want)
			}
			// The runner might have died: events.jsonl has the same bill.
			if bill := ReplayBill(b.Dir, Exec); bill != c.want {
				t.Errorf("events.jsonl has %+v, want %+v", bill, c.want)
			}
		})
	}
	if bill := ReplayBill(t.TempDir(), API); bill != (Bill{}) {
		t.Errorf("without events.jsonl: %+v", bill)
	}
}

// TestReplayBillTornLog checks a log that lost its first line to a power loss.
func TestReplayBillTornLog(t *testing.T) {
	done := `{"kind":"done","usage":{"input":7,"output":5}}` + "\n"
	for runner, want := range map[string]Bill{
		API:    {Settled: true, Usage: Usage{Input: 7, Output: 5}},
		Claude: {Usage: Usage{Input: 7, Output: 5}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, eventsName), []byte(strings.Repeat("\x00", 512)+"\n"+done), 0o600); err != nil {
			t.Fatal(err)
		}
		if bill := ReplayBill(dir, runner); bill != want {
			t.Errorf("%s: %+v, want %+v", runner, bill, want)
		}
	}
}

func TestModelIn(t *testing.T) {
	for _, test := range []struct {
		argv []string
		want string
	}{
		{nil, ""},
		{[]string{"codex", "exec", "-"}, ""},
		{[]string{"codex", "-m", "gpt-5.2", "exec", "-"}, "gpt-5.2"},
		{[]string{"gemini", "--model", "a", "--model", "b"}, "b"},
		{[]string{"gemini", "--model"}, ""},
	} {
		if got := modelIn(test.argv); got != test.want {
			t.Errorf("%q names %q, want %q", test.argv, got, test.want)
		}
	}
}
