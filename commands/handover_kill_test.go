package commands

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

var handovers = flag.Int("handovers", 1, "how many handovers between two agents to disturb by kills")

// TestKilledHandovers has one agent hand another a file and ask it for a typed field, and
// kills their polls, alone or with the agents that these run, at random moments in between.
// The answer arrives as it was submitted, with its file, in one turn of each agent,
// in one chain (docs/protocol.md, "The contract between agents").
func TestKilledHandovers(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	program := buildProgram(t, t.TempDir())
	for range *handovers {
		killedHandover(t, newMeshAgents(t, program), chance)
	}
}

func killedHandover(t *testing.T, s *meshAgents, chance *rand.Rand) {
	s.add("alpha", `
n=$(sed -n 's/^{"passed":\([0-9]*\),"parts":\["a",{"b":null}\]}$/\1/p' prompt)
if grep -q '^Status: success$' prompt; then
	agentstateloop submit --field total:="${n:-0}" --file "$AGENTSTATELOOP_CONTEXT/reports/1/log.bin" 'told'
	exit
fi
agentstateloop ask beta 'how are the tests?' --file log.bin --field passed:integer --field parts:array --deadline 10m
`, "beta")
	s.add("beta", `
agentstateloop submit --field passed=412 --field 'parts=["a", {"b": null}]' --file "$AGENTSTATELOOP_CONTEXT/attachments/log.bin" 'all green'
exit 3
`, "alpha")
	content := make([]byte, 300_000)
	for i := range content {
		content[i] = byte(chance.Uint32())
	}
	writeFile(t, filepath.Join(s.dirs["alpha"], "log.bin"), string(content))
	for _, handle := range []string{"alpha", "beta"} { // each kill of an agent is an attempt
		s.appendConfig(handle, "[turn]\n", "max_attempts = 20\n")
	}
	key := strings.TrimSpace(s.run("alpha", "tell", "--no-wait", "test it"))
	const kills = 4 // the mesh limits the number of questions
	for killed := 0; killed < kills && len(s.tasks("alpha")) == 0; killed++ {
		handle := []string{"alpha", "beta"}[chance.IntN(2)]
		poll := s.agent(handle).command(t.Context(), "poll", "--quiet")
		if err := poll.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(chance.IntN(150)) * time.Millisecond) // the moment of the kill
		poll.Process.Kill()
		if chance.IntN(2) == 0 { // its agent survives, or dies with it; one that dies alone has failed
			killAgents(t, s.dirs[handle])
		}
		poll.Wait() // it may have been killed
	}
	for deadline := time.Now().Add(3 * time.Minute); len(s.tasks("alpha")) == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("alpha has no answer:\n%s", s.run("alpha", "history", "-n", "0"))
		}
		s.run("beta", "poll")
		s.run("alpha", "poll")
	}

	var shown struct {
		Deliverable struct {
			Status state.Outcome
			Fields json.RawMessage
		}
		Trace string `json:"trace_id"`
	}
	if err := json.Unmarshal([]byte(s.run("alpha", "inbox", "show", key, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(string(shown.Deliverable.Fields)), ""); got != `{"total":412}` || shown.Deliverable.Status != state.Success {
		t.Errorf("alpha handed back %s as %s", got, shown.Deliverable.Status)
	}
	for _, task := range s.tasks("alpha") {
		if got, err := os.ReadFile(filepath.Join(s.dirs["alpha"], "state", task.OutputBox, "log.bin")); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes came back of %d: %v", len(got), len(content), err)
		}
	}
	if tasks := s.tasks("alpha"); len(tasks) != 1 || tasks[0].Trace != shown.Trace || shown.Trace == "" {
		t.Errorf("alpha's tasks: %+v", tasks)
	}
	answered := map[string]int{}
	for _, task := range s.tasks("beta") {
		answered[task.Key]++
		if task.Outcome != state.Success || task.Trace != shown.Trace || answered[task.Key] != 1 {
			t.Errorf("beta's task, the %d. of its message: %+v", answered[task.Key], task)
		}
	}
	if len(answered) == 0 {
		t.Errorf("beta had no turn of %s", shown.Trace)
	}
}
