package react

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"
)

// A tool that suspends knows the id of its report when it starts. If it fails, nothing is
// waited for.
func TestSuspendingTool(t *testing.T) {
	var did []string
	pauses := Pauses{
		Await: func(_ context.Context, what, text string, peers []string, d time.Duration) (string, error) {
			did = append(did, "await "+what+" "+text)
			return "wait.7", nil
		},
		Withdraw: func(_ context.Context, id, reason string) error {
			did = append(did, "withdraw "+id)
			return nil
		},
	}
	for _, c := range []struct {
		name, script string
		after, want  After
		text         string
		did          []string
	}{
		{"suspends", `echo "$AGENTSTATELOOP_CORRELATION_ID"`, Suspend, Suspend, "wait.7\n" + suspendNote("wait.7", time.Hour), []string{"await tool deploy {}"}},
		{"fails", "exit 3", Suspend, "", "exit status 3", []string{"await tool deploy {}", "withdraw wait.7"}},
		{"says suspend", `echo '{"after_execution": "suspend", "result": {"n": 1}}'`, ByOutput, Suspend, `{"n": 1}` + "\n" + suspendNote("wait.7", time.Hour), []string{"await tool deploy {}"}},
		{"says terminate", `echo '{"after_execution": "terminate", "result": "done"}'`, ByOutput, Terminate, "done", []string{"await tool deploy {}", "withdraw wait.7"}},
		{"says nothing", "echo done", ByOutput, "", "done", []string{"await tool deploy {}", "withdraw wait.7"}},
		{"terminates", "echo done", Terminate, Terminate, "done", nil},
		{"terminates and fails", "exit 3", Terminate, "", "exit status 3", nil},
	} {
		did = nil
		tool, err := Program{
			Name: "deploy", Description: "Deploys.", Schema: []byte(`{"type": "object"}`), Command: []string{"/bin/sh", "-c", c.script},
			Dir: t.TempDir(), Timeout: time.Minute, After: c.after, Deadline: time.Hour, Pauses: pauses,
		}.Tool()
		if err != nil {
			t.Fatal(err)
		}
		text, err := tool.Run(t.Context(), json.RawMessage("{}"))
		end, ends := errors.AsType[Ending](err)
		if ends {
			text = end.Text
		} else if err != nil {
			text = err.Error()
		}
		if text != c.text || end.After != c.want || !slices.Equal(did, c.did) {
			t.Errorf("%s: %q, %q after it; %q", c.name, text, end.After, did)
		}
	}
}
