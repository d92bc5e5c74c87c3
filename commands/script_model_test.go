package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"agentstateloop/commands/config"
	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// apiConfig is the [api] section for the model of a script.
const apiConfig = `
[api]
provider = %q
base_url = %q
model = "gpt-4o"
low_model = "gpt-4o-mini"
key_file = "api-key"
`

// scriptModel: model PROVIDER FILE. The file has values of scripted.Reply as JSON, one after the
// other.
func scriptModel(ts *testscript.TestScript, args []string) {
	var replies []scripted.Reply
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[1])))
	for dec.More() {
		var r scripted.Reply
		ts.Check(dec.Decode(&r))
		replies = append(replies, r)
	}
	w := worldOf(ts)
	script := scripted.Replies(replies...)
	w.script.Store(&script) // the server may be answering
	if w.model != nil {
		return
	}
	w.model = &scripted.Server{Script: func(q scripted.Request) scripted.Reply { return (*w.script.Load())(q) }}
	url, stop, err := w.model.Start()
	ts.Check(err)
	ts.Defer(stop)
	if args[0] == config.OpenAI {
		url += "/v1"
	}
	ts.Check(os.WriteFile(ts.MkAbs("api-key"), []byte(scripted.Key+"\n"), 0o600))
	ts.Check(os.MkdirAll(ts.MkAbs("work"), 0o700))
	for _, name := range []string{"agent.toml", "mail.toml"} {
		text := strings.Replace(ts.ReadFile(name), "command = [\"./reply.sh\"]", "runner = \"api\"\nworkdir = \"work\"", 1)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text+fmt.Sprintf(apiConfig, args[0], url)), 0o600))
	}
}

// scriptRequests: [!] requests PATTERN. It fails if a real API would refuse a request.
func scriptRequests(ts *testscript.TestScript) string {
	w := worldOf(ts)
	if refused := w.model.Refused(); len(refused) > 0 {
		ts.Fatalf("requests that an API would refuse: %q", refused)
	}
	var all strings.Builder
	for _, q := range w.model.Asked() {
		fmt.Fprintf(&all, "%s\n", q.Body)
	}
	return all.String()
}

// scriptReport: report FROM TEXT [FIELDS]. FROM answers its last question.
func scriptReport(ts *testscript.TestScript, args []string) {
	report := mesh.Message{Kind: mesh.KindReport, Text: args[1]}
	if len(args) == 3 {
		report.Status = state.Success
		ts.Check(json.Unmarshal([]byte(args[2]), &report.Fields))
	}
	c := worldOf(ts).meshClient(args[0])
	box, err := c.Mailbox(context.Background(), 0)
	ts.Check(err)
	for _, m := range slices.Backward(box.Messages) {
		if m.Kind == mesh.KindAsk {
			report.To, report.Correlation = m.From, cmp.Or(m.Correlation, m.ID)
			_, err := c.Send(context.Background(), report)
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("no request asked %s: %+v", args[0], box.Messages)
}
