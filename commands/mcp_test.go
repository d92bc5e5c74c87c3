package commands

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// openTurn is an agent inside its turn, which lasts until end is called.
type openTurn struct {
	*meshAgents
	env []string // of the agent's process
	end func()
}

// startTurn runs a turn of alpha whose agent only waits.
func startTurn(t *testing.T, s *meshAgents) openTurn {
	t.Helper()
	s.add("alpha", "env >env.tmp; mv env.tmp env; while [ ! -e over ]; do sleep 0.02; done; echo printed\n", "beta")
	dir := s.dirs["alpha"]
	// It leaves a poll in the background until the end of the turn, so the lock is not that of
	// s.run, which would wait for the poll.
	tell := s.agent("alpha").command(t.Context(), "tell", "--no-wait", "the lighthouse needs a test")
	lock := filepath.Join(dir, "turn-running")
	release := shareLock(t, tell, lock)
	err := tell.Run()
	release()
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		writeFile(t, filepath.Join(dir, "over"), "")
		for len(s.tasks("alpha")) == 0 && t.Context().Err() == nil {
			time.Sleep(20 * time.Millisecond) // the state is a file of another process
		}
	})
	t.Cleanup(func() {
		os.WriteFile(filepath.Join(dir, "over"), nil, 0o600)
		if err := settle(lock); err != nil { // or that poll still writes while the test's directory is removed
			t.Error(err)
		}
	})
	for {
		text, err := os.ReadFile(filepath.Join(dir, "env"))
		if err == nil {
			return openTurn{s, strings.Split(strings.TrimSpace(string(text)), "\n"), end}
		}
		if t.Context().Err() != nil {
			t.Fatal("no turn began")
		}
		time.Sleep(10 * time.Millisecond) // the agent can only write a file
	}
}

// server returns the command of a server inside the turn, with more variables.
func (o openTurn) server(env ...string) *exec.Cmd {
	cmd := exec.Command(o.program, "mcp")
	cmd.Env = append(slices.Clone(o.env), env...)
	cmd.Dir = o.dirs["alpha"]
	return cmd
}

// connect starts a server and returns a session with it.
func connect(t *testing.T, cmd *exec.Cmd) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// callTool calls a tool, and returns its text and whether that is an error.
func callTool(ctx context.Context, s *mcp.ClientSession, tool, args string) (text string, failed bool, err error) {
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		return "", false, err
	}
	for _, c := range r.Content {
		text += c.(*mcp.TextContent).Text
	}
	return text, r.IsError, nil
}

// TestMCP checks the server of the tools of a turn.
func TestMCP(t *testing.T) {
	testAgents(t, map[string]func(*testing.T, *meshAgents){
		"bad arguments":      testMCPBadArguments,
		"many calls at once": testMCPManyCalls,
		"killed":             testMCPKilled,
		"stale":              testMCPStale,
		"submit":             testMCPSubmit,
		"garbage":            testMCPGarbage,
		"outside of a turn":  testMCPOutside,
		"term":               testMCPTerm,
	}, newMeshAgents)
}

// testMCPBadArguments checks that a call with wrong arguments is a tool error with a reason, and has no
// effect.
func testMCPBadArguments(t *testing.T, s *meshAgents) {
	o := startTurn(t, s)
	before := s.read("alpha", "state/state.json")
	session := connect(t, o.server())
	long := strings.Repeat("x", 5000)
	for _, c := range []struct{ tool, args, want string }{
		{"remember", `{"text":"` + long + `"}`, "4096"},
		{"remember", `{"text":7}`, "schema"},
		{"remember", `{}`, "schema"},
		{"remember", `{"text":"a","more":1}`, "schema"},
		{"search_history", `{"query":"x","most":-1}`, "at least 1"},
		{"search_history", `{"query":["x"]}`, "schema"},
		{"sleep", `{"minutes":0}`, "1 to 1440"},
		{"sleep", `{"minutes":1441}`, "1 to 1440"},
		{"sleep", `{"minutes":"ten"}`, "schema"},
		{"remind", `{"at":"soon","text":"x"}`, "soon"},
		{"remind", `{"minutes":5,"text":" "}`, "empty"},
		{"send", `{"to":"beta"}`, "schema"},
		{"send", `{"to":"Beta Two","text":"x"}`, "not a valid handle\nhint: use a-z"},
		{"send", `{"to":"alpha","text":"x"}`, "cannot send itself"},
		{"send", `{"to":"beta","text":"\n"}`, "empty"},
		{"send", `{"to":"beta","text":"x","files":["missing.txt"]}`, "missing.txt"},
		{"send", `{"to":"beta","text":"` + strings.Repeat("x", 600_000) + `"}`, "as JSON, and the limit is"},
		{"ask", `{"to":"beta","text":"x","minutes":-1}`, "invalid minutes -1"},
		{"ask", `{"to":"beta","text":"x","fields":[{"name":"a b"}]}`, "must have a name"},
		{"ask", `{"to":"beta","text":"x","fields":[{"name":"a","requierd":true}]}`, "schema"},
		{"ask_operator", `{"question":" "}`, "empty"},
		{"ask_operator", `{"question":"` + long + `"}`, "4096"},
		{"ask_operator", `{"question":"x","options":["a","a"]}`, "a"},
		{"ask_operator", `{"question":"x","options":"yes"}`, "schema"},
		{"ask_operator", `{"question":"x","minutes":100000}`, "invalid minutes 100000"},
		{"submit_result", `{}`, "nothing to submit"},
		{"submit_result", `{"text":"x","after_execution":"later"}`, "later"},
		{"submit_result", `{"text":"x","files":["."]}`, "not a regular file"},
		{"submit_result", `{"text":"x","minutes":5}`, "requires after_execution suspend"},
		{"submit_result", `{"fields":{"a":1},"after_execution":"suspend"}`, "final result"},
		{"submit_result", `{"fields":[1]}`, "schema"},
	} {
		text, failed, err := callTool(t.Context(), session, c.tool, c.args)
		if err != nil || !failed || !strings.Contains(text, c.want) {
			t.Errorf("%s %.60s = %.300q, %v, %v, want %q", c.tool, c.args, text, failed, err, c.want)
		}
	}
	if _, _, err := callTool(t.Context(), session, "rm", `{}`); err == nil {
		t.Error("a tool that does not exist was called")
	}
	if s.read("alpha", "state/state.json") != before {
		t.Error("the state has changed")
	}
}

// testMCPManyCalls checks that each of many calls at once has its effect.
func testMCPManyCalls(t *testing.T, s *meshAgents) {
	session := connect(t, startTurn(t, s).server())
	var done sync.WaitGroup
	for i := range 64 {
		done.Go(func() {
			tool, args := "remember", fmt.Sprintf(`{"text":"memory %d"}`, i)
			if i%8 == 0 {
				tool, args = "remind", fmt.Sprintf(`{"minutes":%d,"text":"number %d"}`, 100+i, i)
			}
			if text, failed, err := callTool(t.Context(), session, tool, args); err != nil || failed {
				t.Errorf("%s %s = %q, %v", tool, args, text, err)
			}
		})
	}
	done.Wait()
	list := s.run("alpha", "remind", "--list")
	for i := 0; i < 64; i += 8 {
		if !strings.Contains(list, fmt.Sprintf("number %d\n", i)) {
			t.Errorf("the reminder %d is missing:\n%s", i, list)
		}
	}
	if memory := readMemory(t, s); !strings.HasPrefix(memory, "memory ") {
		t.Errorf("the memory is %q", memory)
	}
}

func readMemory(t *testing.T, s *meshAgents) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dirs["alpha"], "state", "memory.md"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// testMCPKilled checks that a call whose server is killed has all of its effect or none, and that a
// call that was answered has its effect.
func testMCPKilled(t *testing.T, s *meshAgents) {
	o := startTurn(t, s)
	n, answered := 0, ""
	text := func(n int) string { return fmt.Sprintf("%d %s", n, strings.Repeat("abc", 1000)) }
	for range 5 {
		cmd := o.server()
		session := connect(t, cmd)
		time.AfterFunc(time.Duration(rand.IntN(60_000))*time.Microsecond, func() { cmd.Process.Kill() }) // the moment of the kill
		for {
			n++
			if _, failed, err := callTool(t.Context(), session, "remember", fmt.Sprintf(`{"text":%q}`, text(n))); err != nil {
				break
			} else if failed {
				t.Fatal("a call failed")
			}
			answered = text(n)
		}
		if memory := readMemory(t, s); memory != answered && memory != text(n) {
			t.Errorf("the memory is %.20q of %d bytes; %.10q was answered last", memory, len(memory), answered)
		}
		answered = readMemory(t, s)
	}
}

// testMCPStale checks that only the current attempt may call tools, and only during its turn.
func testMCPStale(t *testing.T, s *meshAgents) {
	o := startTurn(t, s)
	calls := map[string]string{
		"remember": `{"text":"x"}`, "search_history": `{"query":"x"}`, "send": `{"to":"beta","text":"x"}`, "ask": `{"to":"beta","text":"x"}`, "ask_operator": `{"question":"x"}`,
		"sleep": `{"minutes":5}`, "remind": `{"minutes":5,"text":"x"}`, "submit_result": `{"text":"x"}`,
	}
	check := func(session *mcp.ClientSession, why string) {
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools.Tools {
			text, failed, err := callTool(t.Context(), session, tool.Name, calls[tool.Name])
			if err != nil || !failed || !strings.Contains(text, "this turn is over, or another attempt at it has begun") {
				t.Errorf("%s: %s = %q, %v, %v", why, tool.Name, text, failed, err)
			}
		}
	}
	check(connect(t, o.server("AGENTSTATELOOP_EPOCH=99")), "another epoch")
	check(connect(t, o.server("AGENTSTATELOOP_TURN=t0")), "another turn")
	session := connect(t, o.server())
	if text, failed, err := callTool(t.Context(), session, "remember", `{"text":"now"}`); err != nil || failed {
		t.Errorf("in the turn: %q, %v", text, err)
	}
	o.end()
	check(session, "after the turn")
	if memory := readMemory(t, s); memory != "now" {
		t.Errorf("the memory is %q", memory)
	}
}

// testMCPSubmit checks that a result has its fields and files, and that terminate ends the turn.
func testMCPSubmit(t *testing.T, s *meshAgents) {
	o := startTurn(t, s)
	writeFile(t, filepath.Join(s.dirs["alpha"], "report.pdf"), "a report")
	session := connect(t, o.server())
	text, failed, err := callTool(t.Context(), session, "submit_result", `{"text":"all green","fields":{"tests":412,"notes":["a"]},"files":["report.pdf"],"after_execution":"terminate"}`)
	if err != nil || failed {
		t.Errorf("submit_result = %q, %v", text, err)
	}
	for deadline := time.Now().Add(time.Minute); len(s.tasks("alpha")) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the turn was not ended")
		}
		time.Sleep(20 * time.Millisecond) // the state is a file of another process
	}
	task := s.tasks("alpha")[0]
	for file, want := range map[string]string{"deliverable.txt": "all green", "report.pdf": "a report", "deliverable.fields.json": `412`} {
		if got := s.read("alpha", filepath.Join("state", task.OutputBox, file)); !strings.Contains(got, want) {
			t.Errorf("%s is %q", file, got)
		}
	}
}

// testMCPGarbage checks that the server answers garbage with an error and goes on.
func testMCPGarbage(t *testing.T, s *meshAgents) {
	cmd := startTurn(t, s).server()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer in.Close()
		io.WriteString(in, `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`+"\n")
		for i := range 2000 {
			fmt.Fprintf(in, "garbage %d \x00\xff{\n", i)
		}
		io.WriteString(in, "\n[]\n[1]\n7\n{}\nnull\n"+`{"jsonrpc":"1.0","id":1,"method":"ping"}`+"\n")
		io.WriteString(in, `{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{"name":"remember","arguments":{"text":"`+strings.Repeat("x", 9<<20)+"\"}}}\n")
		io.WriteString(in, strings.Repeat("[", 1<<20)+"\n")
		io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
		io.WriteString(in, `{"jsonrpc":"2.0","id":"last","method":"tools/call","params":{"name":"remember","arguments":{"text":"it rained"}}}`) // no newline
	}()
	refused, answered := 0, map[string]bool{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     *string
			Error  *struct{ Message string }
			Result json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatalf("standard output has %q: %v", lines.Text(), err)
		}
		if m.ID == nil {
			refused++
			continue
		}
		answered[*m.ID] = m.Error == nil
	}
	if err := cmd.Wait(); err != nil || errs.Len() > 0 {
		t.Errorf("it ended with %v: %s", err, errs.String())
	}
	if refused < 2000 || !answered["hello"] || !answered["last"] || len(answered) != 2 {
		t.Errorf("%d lines were refused, and answered %v", refused, answered)
	}
	if memory := readMemory(t, s); memory != "it rained" {
		t.Errorf("the memory is %q", memory)
	}
}

// testMCPOutside checks that a server outside of a turn lists its tools, and that each call is an
// error with a hint.
func testMCPOutside(t *testing.T, s *meshAgents) {
	s.add("alpha", "exit 1")
	cmd := s.agent("alpha").command(context.WithoutCancel(t.Context()), "mcp")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	session := connect(t, cmd)
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	if want := []string{"ask", "ask_operator", "remember", "remind", "search_history", "send", "sleep", "submit_result"}; !slices.Equal(names, want) {
		t.Errorf("the tools are %q, want %q", names, want)
	}
	if text, failed, err := callTool(t.Context(), session, "remember", `{"text":"x"}`); err != nil || !failed || !strings.Contains(text, "works only inside a turn\nhint: the agent calls it") {
		t.Errorf("remember = %q, %v, %v", text, failed, err)
	}
}

// testMCPTerm checks that TERM ends the server, also while its client reads nothing.
func testMCPTerm(t *testing.T, s *meshAgents) {
	cmd := startTurn(t, s).server()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := make(chan struct{})
	go func() {
		defer close(stuck)
		for { // until the server does not read any more either
			if _, err := io.WriteString(in, "garbage\n"); err != nil {
				return
			}
		}
	}()
	time.Sleep(100 * time.Millisecond) // its output is full then, which only the server itself can see
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // an exit code is its answer to the signal
	<-stuck
}
