package commands

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// meshAgents is several agents on one mesh. Each command of an agent, also one that
// it calls inside its turn, is a process of its own.
type meshAgents struct {
	t       *testing.T
	program string
	url     string            // of the mesh over HTTP
	engine  *fleettest.Engine // or over NATS
	dirs    map[string]string // by handle
	env     []string          // more variables of the commands
}

// TestAgentsOnOneMesh runs agents that ask each other from inside their turns, with
// the real program.
func TestAgentsOnOneMesh(t *testing.T) { testAgents(t, agentStories, newMeshAgents) }

// TestAgentsOverNATS runs the same stories on a real nats-server.
func TestAgentsOverNATS(t *testing.T) { testAgents(t, agentStories, newNATSAgents) }

// testAgents runs tests, each with agents on a mesh of its own.
func testAgents(t *testing.T, tests map[string]func(*testing.T, *meshAgents), agents func(*testing.T, string) *meshAgents) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, agents(t, program))
		})
	}
}

var agentStories = map[string]func(*testing.T, *meshAgents){
	"an answer resumes the turn":       testAnswerResumesTheTurn,
	"two answers resume the turn":      testTwoAnswersResumeTheTurn,
	"a question times out":             testQuestionTimesOut,
	"a question back is answered busy": testQuestionBackIsAnsweredBusy,
	"tell supersedes a question":       testTellSupersedesAQuestion,
	"submit":                           testSubmit,
	"results and the chain":            testResultsAndTheChain,
}

func newMeshAgents(t *testing.T, program string) *meshAgents {
	t.Helper()
	web := httptest.NewServer(mesh.NewServer(mesh.Options{Open: true}))
	t.Cleanup(web.Close)
	return &meshAgents{t: t, program: program, url: web.URL, dirs: map[string]string{}}
}

// newNATSAgents makes agents called alpha, beta and gamma that meet over NATS. Each knows
// the keys of the others.
func newNATSAgents(t *testing.T, program string) *meshAgents {
	t.Helper()
	return &meshAgents{t: t, program: program, engine: fleettest.Start(t, "alpha", "beta", "gamma"), dirs: map[string]string{}}
}

// meshConfig returns how an agent reaches the mesh.
func (s *meshAgents) meshConfig(handle string, peers []string) string {
	config := fmt.Sprintf("peers = %s\n", strings.ReplaceAll(fmt.Sprintf("%q", peers), " ", ", "))
	if s.engine == nil {
		return fmt.Sprintf("[trust]\nmesh = \"open\"\n[mesh]\nurl = %q\n", s.url) + config
	}
	writeFile(s.t, filepath.Join(s.dirs[handle], "key"), s.engine.Users[handle].Seed+"\n")
	config = fmt.Sprintf("[mesh]\nurl = %q\nkey_file = \"key\"\n", s.engine.URL()) + config + "[mesh.keys]\n"
	for other, key := range s.engine.Keys() {
		if other != handle {
			config += fmt.Sprintf("%s = %q\n", other, key)
		}
	}
	return config
}

// add adds an agent whose program is this shell script.
func (s *meshAgents) add(handle, script string, peers ...string) {
	s.t.Helper()
	dir := tempDir(s.t)
	s.dirs[handle] = dir
	config := fmt.Sprintf("[agent]\nhandle = %q\nstate_dir = \"state\"\n[turn]\ncommand = [\"./agent.sh\"]\ntimeout = \"1m\"\n", handle) +
		noSchedule + s.meshConfig(handle, peers)
	writeFile(s.t, filepath.Join(dir, "agent.toml"), config)
	s.setScript(handle, script)
}

// agent returns one of the agents.
func (s *meshAgents) agent(handle string) installedAgent {
	return installedAgent{s.dirs[handle], s.program}
}

// appendConfig adds lines to a section of an agent's configuration.
func (s *meshAgents) appendConfig(handle, section, lines string) {
	s.t.Helper()
	text := strings.Replace(s.read(handle, "agent.toml"), section, section+lines, 1)
	writeFile(s.t, filepath.Join(s.dirs[handle], "agent.toml"), text)
}

// setScript replaces an agent's program.
func (s *meshAgents) setScript(handle, script string) {
	s.t.Helper()
	writeScript(s.t, filepath.Join(s.dirs[handle], "agent.sh"), "cat >prompt\n"+script)
}

// read returns the content of a file of an agent.
func (s *meshAgents) read(handle, file string) string {
	s.t.Helper()
	return readFile(s.t, filepath.Join(s.dirs[handle], file))
}

// run runs a command for an agent, waits for polls that it leaves in the
// background, and returns its standard output.
func (s *meshAgents) run(handle string, args ...string) string {
	s.t.Helper()
	return s.runExpecting(exitDone, handle, args...)
}

// runExpecting is run for a command that must exit with this code.
func (s *meshAgents) runExpecting(code int, handle string, args ...string) string {
	s.t.Helper()
	cmd := s.agent(handle).command(s.t.Context(), args...)
	cmd.Env = append(os.Environ(), s.env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	lock := filepath.Join(s.dirs[handle], "running")
	release := shareLock(s.t, cmd, lock)
	out, err := cmd.Output()
	release()
	if err := settle(lock); err != nil {
		s.t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() != code {
		s.t.Fatalf("%s %q: %v, want exit %d\n%s", handle, args, err, code, errs.String())
	}
	return string(out)
}

// shareLock makes a command hold a lock, which each process that it starts inherits. Call
// release once the command has run. After that, settle waits for the processes that it left in
// the background.
func shareLock(t *testing.T, cmd *exec.Cmd, lock string) (release func() error) {
	t.Helper()
	running, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(running.Fd()), syscall.LOCK_SH)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{running}
	return running.Close
}

// history returns the lines that `history --json` prints.
func (s *meshAgents) history(handle string) []state.Line {
	s.t.Helper()
	var lines []state.Line
	scan := bufio.NewScanner(strings.NewReader(s.run(handle, "history", "-n", "0", "--json")))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var l state.Line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			s.t.Fatalf("%s: %v", scan.Text(), err)
		}
		lines = append(lines, l)
	}
	return lines
}

// edges returns the edge lines of an agent's history as "WHAT FROM TO RESPONSE".
func (s *meshAgents) edges(handle string) []string {
	s.t.Helper()
	var edges []string
	for _, l := range s.history(handle) {
		if l.Kind == state.LineEdge && l.Source != state.CLI {
			edges = append(edges, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", l.What, l.From, l.To, l.Response)), " "))
		}
	}
	return edges
}

// edgesByRequest collects the edges of all agents' histories by question: who asked
// whom, which report came back, and which one the turn joined. An edge that two agents have
// counts once.
func (s *meshAgents) edgesByRequest() map[string]string {
	s.t.Helper()
	facts := map[string][]string{} // by request
	for handle := range s.dirs {
		for _, l := range s.history(handle) {
			if l.Kind != state.LineEdge || l.Source == state.CLI {
				continue
			}
			fact := string(l.What) + " " + l.From + ">" + l.To
			if l.What == "join" {
				fact = "join " + l.Response
			}
			if l.What == "report" {
				fact += " " + l.Response
			}
			if !slices.Contains(facts[l.Request], fact) {
				facts[l.Request] = append(facts[l.Request], fact)
			}
		}
	}
	joined := map[string]string{}
	for request, list := range facts {
		slices.Sort(list)
		joined[request] = strings.Join(list, "; ")
	}
	return joined
}

// tasks returns the task lines of an agent's history.
func (s *meshAgents) tasks(handle string) []state.Line {
	s.t.Helper()
	return slices.DeleteFunc(s.history(handle), func(l state.Line) bool { return l.Kind != state.LineTask })
}

// deliverable returns the text that a task delivered.
func (s *meshAgents) deliverable(handle string, task state.Line) string {
	s.t.Helper()
	return strings.TrimSpace(s.read(handle, filepath.Join("state", task.OutputBox, task.Deliverable)))
}

// askingScript returns the script of an agent that asks these others, and answers
// "answers: " and their reports.
func askingScript(deadline string, others ...string) string {
	var b strings.Builder
	b.WriteString("if [ ! -e asked ]; then : >asked\n")
	for _, other := range others {
		fmt.Fprintf(&b, "agentstateloop ask %s 'which commit?' --deadline %s || exit 1\n", other, deadline)
	}
	b.WriteString("exit 0\nfi\nrm asked\necho \"answers: $(sed -n '/^<report [a-z0-9]*>$/,/^<\\/report [a-z0-9]*>$/p' prompt | grep -v report | sort | tr '\\n' ' ')\"\n")
	return b.String()
}

// testAnswerResumesTheTurn checks that alpha, asked by the operator, asks beta, is
// suspended, and finishes the same turn with beta's answer. The edges of both show
// who asked whom.
func testAnswerResumesTheTurn(t *testing.T, s *meshAgents) {
	s.add("alpha", askingScript("10m", "beta"), "beta")
	s.add("beta", "echo '4c1f'\n", "alpha")
	s.run("alpha", "tell", "--no-wait", "deploy it")
	s.run("alpha", "poll")
	if got := s.run("alpha", "status", "--json"); !strings.Contains(got, `"status": "suspended"`) || !strings.Contains(got, `"waiting_tool_count": 1`) {
		t.Errorf("status while alpha waits:\n%s", got)
	}
	s.run("beta", "poll")
	s.run("alpha", "poll")

	tasks := s.tasks("alpha")
	if len(tasks) != 1 || tasks[0].Epoch != 2 || s.deliverable("alpha", tasks[0]) != "answers: 4c1f" {
		t.Fatalf("tasks: %+v", tasks)
	}
	answered := s.tasks("beta")
	if len(answered) != 1 {
		t.Fatalf("beta's tasks: %+v", answered)
	}
	report := "reply." + answered[0].TurnID
	for request, facts := range s.edgesByRequest() {
		want := fmt.Sprintf("enqueue alpha>beta; join %s; report beta>alpha %[1]s", report)
		if !strings.HasPrefix(request, "ask.") || facts != want {
			t.Errorf("%s: %s\nwant %s", request, facts, want)
		}
	}
	if n := len(s.edgesByRequest()); n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
	// Each agent records each edge once.
	for handle, want := range map[string][]string{
		"alpha": {"enqueue alpha beta", "report beta alpha " + report, "join " + report},
		"beta":  {"enqueue alpha beta", "report beta alpha " + report},
	} {
		if got := s.edges(handle); !slices.Equal(got, want) {
			t.Errorf("edges of %s: %q, want %q", handle, got, want)
		}
	}
}

// testTwoAnswersResumeTheTurn checks that a turn with two questions waits for both
// answers.
func testTwoAnswersResumeTheTurn(t *testing.T, s *meshAgents) {
	s.add("alpha", askingScript("10m", "beta", "gamma"), "beta", "gamma")
	s.add("beta", "echo 'from beta'\n", "alpha")
	s.add("gamma", "echo 'from gamma'\n", "alpha")
	s.run("alpha", "tell", "--no-wait", "ask around")
	s.run("alpha", "poll")
	s.run("gamma", "poll")
	s.run("alpha", "poll")
	if tasks := s.tasks("alpha"); len(tasks) != 0 {
		t.Fatalf("alpha did not wait for both answers: %+v", tasks)
	}
	s.run("beta", "poll")
	s.run("alpha", "poll")
	tasks := s.tasks("alpha")
	if len(tasks) != 1 || s.deliverable("alpha", tasks[0]) != "answers: from beta from gamma" {
		t.Fatalf("tasks: %+v", tasks)
	}
	if n := len(s.edgesByRequest()); n != 2 {
		t.Errorf("%d questions, want 2: %v", n, s.edgesByRequest())
	}
}

// testQuestionTimesOut checks that a missing report becomes a timeout, also in the
// edges.
func testQuestionTimesOut(t *testing.T, s *meshAgents) {
	s.add("alpha", askingScript("1s", "beta"), "beta")
	s.run("alpha", "tell", "--no-wait", "ask nobody")
	s.run("alpha", "poll")
	for deadline := time.Now().Add(time.Minute); len(s.tasks("alpha")) == 0 && time.Now().Before(deadline); {
		s.run("alpha", "poll")
	}
	tasks := s.tasks("alpha")
	if len(tasks) != 1 || s.deliverable("alpha", tasks[0]) != "answers: timeout" {
		t.Fatalf("tasks: %+v", tasks)
	}
	if got, want := s.edges("alpha"), []string{"enqueue alpha beta", "report beta alpha timeout", "join timeout"}; !slices.Equal(got, want) {
		t.Errorf("edges %q, want %q", got, want)
	}
}

// testQuestionBackIsAnsweredBusy checks that beta, asked by alpha, asks alpha and is
// answered busy at once. Two agents never wait for each other.
func testQuestionBackIsAnsweredBusy(t *testing.T, s *meshAgents) {
	s.add("alpha", askingScript("10m", "beta"), "beta")
	s.add("beta", askingScript("10m", "alpha"), "alpha")
	s.run("alpha", "tell", "--no-wait", "go round")
	for _, handle := range []string{"alpha", "beta", "alpha", "beta", "alpha"} {
		s.run(handle, "poll")
	}
	tasks := s.tasks("alpha")
	if len(tasks) != 1 || s.deliverable("alpha", tasks[0]) != "answers: answers: busy" {
		t.Fatalf("tasks: %+v", tasks)
	}
	if tasks := s.tasks("beta"); len(tasks) != 1 || s.deliverable("beta", tasks[0]) != "answers: busy" {
		t.Errorf("beta's tasks: %+v", tasks)
	}
}

// testTellSupersedesAQuestion checks that a message of the operator ends the wait.
func testTellSupersedesAQuestion(t *testing.T, s *meshAgents) {
	s.add("alpha", askingScript("10m", "beta"), "beta")
	s.run("alpha", "tell", "--no-wait", "ask beta")
	s.run("alpha", "poll")
	s.setScript("alpha", "echo \"count: $(grep -c superseded prompt)\"\n")
	s.run("alpha", "tell", "--no-wait", "never mind")
	s.run("alpha", "poll")
	tasks := s.tasks("alpha")
	if len(tasks) != 2 || s.deliverable("alpha", tasks[0]) != "count: 1" || s.deliverable("alpha", tasks[1]) != "count: 0" {
		t.Fatalf("tasks: %+v", tasks)
	}
	if got := s.edges("alpha"); len(got) != 3 || got[1] != "report beta alpha timeout: superseded" {
		t.Errorf("edges: %q", got)
	}
}

// testSubmit checks submit inside a turn, with a field and a file. A second submit
// fails, and so does one with the epoch of another attempt.
func testSubmit(t *testing.T, s *meshAgents) {
	s.add("alpha", `
echo 'the report' >report.txt
agentstateloop submit --field verdict=green --file report.txt 'all tests pass'; echo "first $?" >codes
agentstateloop submit again 2>>errors; echo "second $?" >>codes
AGENTSTATELOOP_EPOCH=7 agentstateloop submit stale 2>>errors; echo "stale $?" >>codes
kill -9 $$
`)
	s.run("alpha", "tell", "--no-wait", "test it")
	s.run("alpha", "poll")
	s.run("alpha", "poll")
	tasks := s.tasks("alpha")
	if len(tasks) != 1 || tasks[0].Outcome != state.Success || !strings.HasPrefix(s.deliverable("alpha", tasks[0]), "all tests pass") || tasks[0].Fields != "deliverable.fields.json" {
		t.Fatalf("tasks: %+v", tasks)
	}
	if got := s.read("alpha", "codes"); got != "first 0\nsecond 1\nstale 1\n" {
		t.Errorf("exit codes:\n%s", got)
	}
	if got := s.read("alpha", "errors"); strings.Count(got, "agentstateloop: error: this turn ") != 2 {
		t.Errorf("errors:\n%s", got)
	}
	if got := s.read("alpha", "state/"+tasks[0].OutputBox+"/report.txt"); got != "the report\n" {
		t.Errorf("the file: %q", got)
	}
}

// testResultsAndTheChain checks that a question asks for fields, that its report brings
// them as JSON with a status, and that both histories have one chain.
func testResultsAndTheChain(t *testing.T, s *meshAgents) {
	s.add("alpha", `
if [ -e asked ]; then cat prompt >resumed; echo told; exit; fi
: >asked
agentstateloop ask beta 'how are the tests?' --field passed:integer='how many' --field 'notes?'
`, "beta")
	s.add("beta", "agentstateloop submit --field passed=many 2>wrong; agentstateloop submit --field passed=412 'all <green>'\n", "alpha")
	s.run("alpha", "tell", "--no-wait", "test it")
	s.run("alpha", "poll")
	s.run("beta", "poll")
	s.run("alpha", "poll")
	if got := s.read("beta", "prompt"); !strings.Contains(got, "\npassed: integer, required. how many\nnotes: any value\n") {
		t.Errorf("beta's prompt:\n%s", got)
	}
	if got := s.read("beta", "wrong"); !strings.Contains(got, "the result field passed must be an integer, and many is not") {
		t.Errorf("prompt of beta: %s", got)
	}
	shown := regexp.MustCompile(`You asked @beta \(ask\.[0-9a-f]+\): how are the tests\?\nStatus: success\n<fields [a-z2-7]+>\n\{"passed":412\}\n</fields [a-z2-7]+>\n<report [a-z2-7]+>\nall <green>\n`)
	if got := s.read("alpha", "resumed"); !shown.MatchString(got) {
		t.Errorf("alpha's prompt:\n%s", got)
	}
	var chain string
	for _, l := range s.history("alpha") {
		if l.Kind == state.LineMessage {
			chain = l.Trace
		}
	}
	lines := map[string]string{}
	for _, handle := range []string{"alpha", "beta"} {
		out := s.run(handle, "history", "--all", "--trace", strings.TrimPrefix(chain, "trace.")[:8])
		lines[handle] = out
		for _, part := range []string{"message ", "edge       enqueue from alpha to beta", "turn       running", "task       success", "edge       report success from beta to alpha"} {
			if !strings.Contains(out, part) {
				t.Errorf("the chain of %s lacks %q:\n%s", handle, part, out)
			}
		}
	}
	if !strings.Contains(lines["alpha"], "join on ask.") {
		t.Errorf("alpha's chain lacks the join:\n%s", lines["alpha"])
	}
}
