package turn

import "testing"

// TestContextAndWindow checks the size of a session's context: that of the agent's last call, without
// its subagents, or without one the number of requests to its model.
func TestContextAndWindow(t *testing.T) {
	const claude = `{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5"}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Task"}],"usage":{"input_tokens":10,"cache_read_input_tokens":200,"output_tokens":1}}}
{"type":"assistant","parent_tool_use_id":"t1","message":{"content":[{"type":"text","text":"x"}],"usage":{"input_tokens":7777}}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}
{"type":"assistant","message":{"content":[{"type":"text","text":"done"}],"usage":{"input_tokens":20,"cache_read_input_tokens":300,"cache_creation_input_tokens":4000,"output_tokens":5}}}
{"type":"result","subtype":"success","result":"done","usage":{"input_tokens":30,"cache_read_input_tokens":500},"modelUsage":{"claude-haiku-4-5":{"contextWindow":100},"claude-sonnet-4-5":{"contextWindow":1000000}}}
`
	const codex = `{"type":"thread.started","thread_id":"c-1"}
{"type":"item.started","item":{"id":"1","type":"command_execution"}}
{"type":"item.started","item":{"id":"2","type":"web_search"}}
{"type":"item.completed","item":{"id":"1","type":"command_execution"}}
{"type":"item.completed","item":{"id":"2","type":"web_search"}}
{"type":"item.started","item":{"id":"3","type":"command_execution"}}
{"type":"item.completed","item":{"id":"3","type":"command_execution"}}
{"type":"item.completed","item":{"id":"4","type":"agent_message","text":"done"}}
{"type":"turn.completed","usage":{"input_tokens":300,"output_tokens":5}}
`
	for _, c := range []struct {
		runner, stream  string
		context, window int64
		calls           int
	}{
		{Claude, claude, 4325, 1_000_000, 2},
		{Codex, codex, 0, 0, 3},
		{Exec, "done\n", 0, 0, 1},
	} {
		r := fakeCLI(t, c.runner, c.stream, "").run()
		if r.Status != Success || r.Context != c.context || r.Window != c.window || r.Calls != c.calls {
			t.Errorf("%s: %s, %d of %d tokens in %d calls: %+v", c.runner, r.Status, r.Context, r.Window, r.Calls, r)
		}
	}
}

// TestContextOfEarlierDoneStays checks that a Done without the size of the context keeps the earlier
// one.
func TestContextOfEarlierDoneStays(t *testing.T) {
	o := newOutput(Config{}, Attempt{}, agent{}, nil)
	for _, e := range []Event{{Kind: Done, Context: 10, Window: 20}, {Kind: Done}} {
		o.apply(e)
	}
	if o.context != 10 || o.window != 20 {
		t.Errorf("%d of %d tokens", o.context, o.window)
	}
}
