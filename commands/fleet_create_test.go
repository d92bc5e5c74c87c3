package commands

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// TestFleetCreateReportsDifferences changes settings of streams, and checks that fleet create
// reports them: it repairs some, and prints a hint for the others.
func TestFleetCreateReportsDifferences(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice")
	admin := e.Conn("")
	ask := func(subject string, request any) map[string]any {
		t.Helper()
		body, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := admin.Request(t.Context(), "$JS.API."+subject, body, nil)
		var answer map[string]any
		if err != nil || json.Unmarshal(got.Data, &answer) != nil || answer["error"] != nil {
			t.Fatalf("%s: %s, %v", subject, got.Data, err)
		}
		return answer
	}
	stream := ask("STREAM.INFO."+fleet.EventStream, struct{}{})["config"].(map[string]any)
	stream["max_age"] = 3600e9
	stream["duplicate_window"] = 60e9
	ask("STREAM.UPDATE."+fleet.EventStream, stream)
	stream = ask("STREAM.INFO."+fleet.MeshStream, struct{}{})["config"].(map[string]any)
	ask("STREAM.DELETE."+fleet.MeshStream, struct{}{})
	stream["storage"] = "memory"
	ask("STREAM.CREATE."+fleet.MeshStream, stream)

	key := writeFile(t, filepath.Join(t.TempDir(), "admin.nk"), e.Admin.Seed+"\n")
	create := func(args ...string) (code int, out string) {
		return runInProcess(t, testProgram(), append([]string{"fleet", "create", "--admin-key", key, "--url", e.URL(), "alice"}, args...)...)
	}
	const (
		event = " ASL_EVT: duplicate_window 1m0s instead of 1h0m0s; max_age 1h0m0s instead of 720h0m0s\n"
		halt  = "differs  KV_asl-mesh: storage \"memory\" instead of \"file\": cannot be changed\n" +
			"         hint: back it up (nats stream backup KV_asl-mesh FOLDER), delete it (nats stream rm KV_asl-mesh), and run fleet create again\n"
	)
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"--check"}, "outdated" + event + halt + "7 of 9 are up to date\n" +
			"agentstateloop: error: 2 of 9 are not up to date\nagentstateloop: hint: without --check, it creates and repairs them if possible\n"},
		{nil, "repaired" + event + halt + "7 of 9 are up to date\n" +
			"agentstateloop: error: 1 of 9 still differ\nagentstateloop: hint: follow the hints above; the agents may work anyway\n"},
		{[]string{"--check"}, halt + "8 of 9 are up to date\n" +
			"agentstateloop: error: 1 of 9 are not up to date\nagentstateloop: hint: without --check, it creates and repairs them if possible\n"},
	} {
		if code, out := create(step.args...); out != step.want || code != exitError {
			t.Errorf("fleet create %s exits %d:\n%s\nwant\n%s", strings.Join(step.args, " "), code, out, step.want)
		}
	}
	_, out := create("--json")
	document, _, _ := strings.Cut(out, "\nagentstateloop: ")
	if err := readSchemas(t).named("fleet_create.json").validate([]byte(document)); err != nil || !strings.Contains(out, `"hint": "back it up`) {
		t.Errorf("%v\n%s", err, out)
	}
}
