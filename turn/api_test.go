package turn

import (
	"fmt"
	"strings"
	"testing"

	"agentstateloop/state"
)

// Streams of our own loop, as package react emits them.
const (
	apiGood = `{"kind":"session_start"}
{"kind":"text_delta","text":"I will "}
{"kind":"text_delta","text":"look."}
{"kind":"tool_use","tool":"list","tool_id":"c1"}
{"kind":"tool_result","tool_id":"c1"}
{"kind":"text_delta","text":"\n\nIt is green."}
{"kind":"done","text":"It is green.","cost_usd":0.5,"usage":{"input":10,"output":2,"cache_read":0,"cache_write":0}}
`
	apiCut = `{"kind":"text_delta","text":"I will look."}
{"kind":"tool_use","tool":"list","tool_id":"c1"}
{"kind":"tool_result","tool_id":"c1"}
{"kind":"text_delta","text":"\n\nAnd look."}
{"kind":"done","cut":"no final answer after 25 requests to the model"}
`
	apiRefused = `{"kind":"error","text":"credential refused: 401: invalid x-api-key"}
{"kind":"done","failed":true,"text":"401: invalid x-api-key"}
`
)

func TestStreamsOfAPI(t *testing.T) {
	run := func(stream string, code int) Result {
		b := newFixture(t, fmt.Sprintf("cat <<'END'\n%sEND\nexit %d\n", stream, code))
		b.Runner = API
		b.Extra = []string{"--allowedTools", "Bash"} // arguments of other runners are ignored
		return b.run()
	}
	res := run(apiGood, 0)
	res.check(t, Success, ExitClean, "It is green.", "")
	if res.Session != "" || res.Credential != nil {
		t.Errorf("%+v", res)
	}
	run(apiCut, 0).check(t, Partial, ExitClean, "I will look.\n\nAnd look.", "25 requests")
	run(strings.Replace(apiCut, "text_delta", "thinking", -1), 0).check(t, Failed, ExitClean, "", "25 requests")

	res = run(apiRefused, 1)
	if c, ok := state.CredentialFailure(res.Credential); !ok || c.Name != "agent:api" || res.Status != Failed {
		t.Errorf("%+v", res)
	}
	run(strings.SplitAfter(apiGood, "list")[0]+"\n", 137).check(t, Failed, ExitError, "I will look.", "137")
}
