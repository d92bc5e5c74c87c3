package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/clitest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/turn/box"
)

// addRealAgent makes alpha an agent with a real program and a scripted model, and with a tool server
// of the user, mine. It returns the user's configuration file.
func addRealAgent(t *testing.T, s *meshAgents, runner, extra string, answers ...clitest.Answer) (model *clitest.Provider, users string) {
	t.Helper()
	cli := needRealProgram(t, runner)
	model = clitest.New(t, answers...)
	home := tempDir(t)
	args, env, err := clitest.Home(runner, home, model.URL)
	if err != nil {
		t.Fatal(err)
	}
	users = configureUserServer(t, s, runner, home)
	var variables []string
	for k, v := range env {
		variables = append(variables, fmt.Sprintf("%s = %q", k, v))
	}
	mails := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	s.add("alpha", "exit 1", "beta")
	command := strings.ReplaceAll(fmt.Sprintf("%q", append([]string{cli}, args...)), `" "`, `", "`)
	config := strings.Replace(s.read("alpha", "agent.toml"), "command = [\"./agent.sh\"]\ntimeout = \"1m\"\n",
		fmt.Sprintf("runner = %q\ncommand = %s\nworkdir = \"work\"\nenv = { %s }\n%s", runner, command, strings.Join(variables, ", "), extra), 1)
	config = strings.Replace(config, "[turn]\n", "operator = [\"operator@example.com\"]\n"+
		fmt.Sprintf("[mail]\naddress = \"goulard@example.org\"\n[mail.imap]\nhost = %q\npassword_file = \"secret\"\nca_file = %q\n[mail.smtp]\nhost = %q\nca_file = %[2]q\n[turn]\n",
			mails.IMAPTLS, mails.CAFile, mails.SMTPTLS), 1)
	config = strings.Replace(config, "mesh = \"open\"\n", "mesh = \"open\"\nrequire = \"from\"\n", 1)
	writeFiles(t, s.dirs["alpha"], map[string]string{"agent.toml": config, "secret": mails.Password, "work/empty": ""})
	return model, users
}

// needRealProgram returns the path of a program from npm, or skips the test without it.
func needRealProgram(t *testing.T, program string) string {
	t.Helper()
	clis := os.Getenv("AGENTSTATELOOP_CLIS")
	path := filepath.Join(clis, program)
	if _, err := os.Stat(path); clis == "" || err != nil {
		if os.Getenv(requireReal) != "" {
			t.Fatalf("no %s in AGENTSTATELOOP_CLIS=%q", program, clis)
		}
		t.Skipf("no %s: set AGENTSTATELOOP_CLIS to the node_modules/.bin that has it", program)
	}
	return path
}

// configureUserServer writes the user's configuration of a program with a tool server.
func configureUserServer(t *testing.T, s *meshAgents, runner, home string) (file string) {
	t.Helper()
	text := fmt.Sprintf(`"mcpServers":{"mine":{"command":%q,"args":["mcp"]}}`, s.program)
	switch runner {
	case "claude":
		file, text = filepath.Join(home, ".claude.json"), "{"+text+"}"
	case "codex":
		file = filepath.Join(home, ".codex", "config.toml")
		text = readFile(t, file) + fmt.Sprintf("[mcp_servers.mine]\ncommand = %q\nargs = [\"mcp\"]\n", s.program)
	case "gemini":
		file, text = filepath.Join(home, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}},`+strings.Replace(text, `"args"`, `"trust":true,"args"`, 1)+"}"
	}
	return writeFile(t, file, text)
}

// toolNames are the names of our tools in the calls of each program.
var toolNames = map[string]func(tool string) clitest.Answer{
	"claude": func(tool string) clitest.Answer { return clitest.Answer{Tool: "mcp__agentstateloop__" + tool} },
	"codex":  func(tool string) clitest.Answer { return clitest.Answer{Namespace: "mcp__agentstateloop", Tool: tool} },
	"gemini": func(tool string) clitest.Answer { return clitest.Answer{Tool: "mcp_agentstateloop_" + tool} },
}

// toolCall returns a model's call of one of our tools.
func toolCall(runner, tool string, args map[string]any) clitest.Answer {
	a := toolNames[runner](tool)
	a.Args = args
	return a
}

// TestRealTools has the real agents use our tools without the permission to run commands.
func TestRealTools(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	for runner, config := range map[string]string{
		"claude": "[turn.permissions]\noperator = [\"--allowedTools\", \"Read\", \"--disallowedTools\", \"Bash\", \"--permission-mode\", \"dontAsk\"]\n",
		"codex":  "[turn.permissions]\noperator = [\"--sandbox\", \"read-only\", \"--disable\", \"shell_tool\"]\n",
		"gemini": "", // without --yolo it runs no command
	} {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			testRealTools(t, newMeshAgents(t, program), runner, config)
		})
	}
}

// TestRealToolsInSandbox has the real agents use our tools in a sandbox, which contains neither the
// configuration nor the state.
func TestRealToolsInSandbox(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	needSandbox(t, program)
	for _, runner := range []string{"claude", "codex", "gemini"} {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			s := newMeshAgents(t, program)
			addRealAgent(t, s, runner, "sandbox = \"bwrap\"\n",
				toolCall(runner, "remember", map[string]any{"text": "never on a Friday"}),
				toolCall(runner, "submit_result", map[string]any{"text": "all green", "fields": map[string]any{"tests": 412}}),
				clitest.Answer{Text: "Done."})
			key := strings.TrimSpace(s.run("alpha", "tell", "--no-wait", "the lighthouse needs a test"))
			s.run("alpha", "poll")
			if message := s.run("alpha", "inbox", "show", key, "--json"); !strings.Contains(message, `"text": "all green"`) || !strings.Contains(message, `"tests": 412`) {
				t.Errorf("the answer is:\n%s", message)
			}
			if memory := readMemory(t, s); memory != "never on a Friday" {
				t.Errorf("the memory is %q", memory)
			}
		})
	}
}

// needSandbox skips a test if a program of ours cannot run in a sandbox.
func needSandbox(t *testing.T, program string) {
	t.Helper()
	_, err := box.Bubblewrap(t.Context(), program)
	if err != nil && os.Getenv(requireReal) != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

func testRealTools(t *testing.T, s *meshAgents, runner, config string) {
	s.add("beta", "echo 'it is green'", "alpha")
	model, users := addRealAgent(t, s, runner, config,
		toolCall(runner, "remember", map[string]any{"text": "never on a Friday"}),
		toolCall(runner, "search_history", map[string]any{"query": "lighthouse"}),
		toolCall(runner, "send", map[string]any{"to": "beta", "text": "a greeting"}),
		toolCall(runner, "sleep", map[string]any{"minutes": 600, "reason": "look at the build"}),
		toolCall(runner, "ask_operator", map[string]any{"question": "May I delete it?", "options": []any{"yes", "no"}}),
		toolCall(runner, "ask", map[string]any{"to": "@beta", "text": "is it green?", "fields": []any{map[string]any{"name": "green", "type": "boolean"}}}),
		clitest.Answer{Text: "I wait."},
		toolCall(runner, "submit_result", map[string]any{"text": "all green", "fields": map[string]any{"tests": 412}}),
		clitest.Answer{Text: "Done."})
	before := readFile(t, users)
	key := strings.TrimSpace(s.run("alpha", "tell", "--no-wait", "the lighthouse needs a test"))
	s.run("alpha", "poll")
	s.run("beta", "poll")
	s.run("alpha", "answer", "1", "yes")
	for range 10 {
		s.run("beta", "poll")
		s.run("alpha", "poll")
		if len(s.tasks("alpha")) > 0 {
			break
		}
	}
	message := s.run("alpha", "inbox", "show", key, "--json")
	for _, want := range []string{`"text": "all green"`, `"tests": 412`, `"status": "success"`} {
		if !strings.Contains(message, want) {
			t.Errorf("the answer has no %s:\n%s", want, message)
		}
	}
	if memory := readMemory(t, s); memory != "never on a Friday" {
		t.Errorf("the memory is %q", memory)
	}
	if wakeups := s.run("alpha", "remind", "--list"); !strings.Contains(wakeups, "look at the build") {
		t.Errorf("it wakes for %q", wakeups)
	}
	asked := model.Asked()
	all := strings.Join(asked, "\n")
	for _, want := range []string{"tools of the MCP server agentstateloop", "remembered", "the lighthouse needs a test", "it is green", "May I delete it?"} {
		if !strings.Contains(all, want) {
			t.Errorf("the prompt lacks %q", want)
		}
	}
	if received := s.run("beta", "history", "-n", "0", "--all"); !strings.Contains(received, "message    from alpha (mesh:alpha:send.") {
		t.Errorf("beta received no message:\n%s", received)
	}
	events := s.run("alpha", "events", "-n", "0")
	if !strings.Contains(events, "agentstateloop/remember") {
		t.Errorf("the events do not name the tool:\n%s", events)
	}

	// The user's own server is there as well, and their configuration is unchanged.
	mine := map[string]string{"claude": `"mcp__mine__remember"`, "codex": `"mcp__mine"`, "gemini": `"mcp_mine_remember"`}[runner]
	if !strings.Contains(asked[len(asked)-1], mine) {
		t.Errorf("the model has no tool %s", mine)
	}
	after := readFile(t, users)
	if runner == "claude" { // which also keeps counters in this file
		var b, a struct{ MCPServers any }
		if err := errors.Join(json.Unmarshal([]byte(before), &b), json.Unmarshal([]byte(after), &a)); err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s has now %v, %v", users, a, err)
		}
	} else if after != before {
		t.Errorf("%s is now:\n%s", users, after)
	}
}

// TestRealApprove has the real claude ask the operator by mail for the permission to run a command.
// It runs an allowed command once, and a refused one never.
func TestRealApprove(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	for name, sandbox := range map[string]string{"plain": "", "in a box": "sandbox = \"bwrap\"\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if sandbox != "" {
				needSandbox(t, program)
			}
			s := newMeshAgents(t, program)
			s.add("beta", "agentstateloop send alpha 'make three'; echo sent", "alpha")
			run := func(file string) clitest.Answer {
				return clitest.Answer{Text: "I will.", Tool: "Bash", Args: map[string]any{"command": "touch " + file, "description": "make it"}}
			}
			model, _ := addRealAgent(t, s, "claude", "approve = true\n"+sandbox,
				run("one"), run("one"), run("two"), clitest.Answer{Text: "It is all done."}, run("three"), clitest.Answer{Text: "I may not."})
			exists := func(file string) bool {
				_, err := os.Stat(filepath.Join(s.dirs["alpha"], "work", file))
				return err == nil
			}
			key := strings.TrimSpace(s.run("alpha", "tell", "--no-wait", "make the files"))
			s.run("alpha", "poll")
			asked := s.run("alpha", "status")
			if exists("one") || len(model.Asked()) != 1 || !strings.Contains(asked, "May the agent run a command (execute)?") {
				t.Fatalf("made: %t; the model was asked %d times\n%s", exists("one"), len(model.Asked()), asked)
			}
			s.run("alpha", "answer", "1", "allow")
			s.run("alpha", "poll")
			if !exists("one") || exists("two") || len(model.Asked()) != 3 {
				t.Fatalf("after the permission: made: %t, %t; the model was asked %d times\n%s", exists("one"), exists("two"), len(model.Asked()), s.run("alpha", "status"))
			}
			s.run("alpha", "answer", "1", "refuse")
			s.run("alpha", "poll")
			if message := s.run("alpha", "inbox", "show", key, "--json"); exists("two") || !strings.Contains(message, `"text": "It is all done."`) || !strings.Contains(message, `"status": "success"`) {
				t.Errorf("made two: %t\n%s", exists("two"), message)
			}

			// A turn of another agent asks for no permission.
			s.run("beta", "tell", "--no-wait", "have three made")
			s.run("beta", "poll")
			s.run("alpha", "poll")
			if status := s.run("alpha", "status"); exists("three") || strings.Contains(status, "asked") {
				t.Errorf("made three: %t\n%s", exists("three"), status)
			}
			if history := s.run("alpha", "history", "-n", "0"); !strings.Contains(history, "denied permission") {
				t.Errorf("the refusal is not in the history:\n%s", history)
			}
		})
	}
}

// TestRealOutages has the services of the real programs limit them, refuse a session as too long,
// and recover. No message fails, and the program makes only the necessary calls.
func TestRealOutages(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	tooLong := clitest.Answer{Status: 400, Fault: "prompt is too long: 205000 tokens > 200000 maximum"}
	for runner, answers := range map[string][]clitest.Answer{
		"claude": {{Text: "one"}}, // which makes summaries in calls of its own
		"codex":  {{Text: "one"}, tooLong, {Text: "two"}},
		"gemini": {{Text: "one"}, tooLong, {Text: "two"}},
	} {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			s := newMeshAgents(t, program)
			limit := clitest.Limit(runner, time.Now().Add(90*time.Minute))
			model, _ := addRealAgent(t, s, runner, "", append([]clitest.Answer{limit}, answers...)...)
			first := strings.TrimSpace(s.run("alpha", "tell", "--no-wait", "the first"))
			s.run("alpha", "poll", "--if-due")
			if status := s.run("alpha", "status"); !strings.Contains(status, "LIMIT") || !strings.Contains(status, "1 deferred") {
				t.Errorf("during the limit:\n%s", status)
			}
			s.run("alpha", "poll", "--if-due")
			if n := len(model.Asked()); n != 1 {
				t.Errorf("the limit was met %d times", n)
			}
			s.run("alpha", "poll") // by hand: the operator has paid
			wantShown := func(key, text string) {
				if message := s.run("alpha", "inbox", "show", key, "--json"); !strings.Contains(message, fmt.Sprintf("%q: %q", "text", text)) || !strings.Contains(message, `"status": "success"`) {
					t.Errorf("the answer is:\n%s", message)
				}
			}
			wantShown(first, "one")
			if len(answers) > 1 {
				second := strings.TrimSpace(s.run("alpha", "tell", "--no-wait", "the second"))
				s.run("alpha", "poll")
				wantShown(second, "two")
			}
			if n := len(model.Asked()); n != 1+len(answers) {
				t.Errorf("%d calls were paid for, want %d", n, 1+len(answers))
			}
			if status := s.run("alpha", "status"); strings.Contains(status, "LIMIT") {
				t.Errorf("after the limit:\n%s", status)
			}
		})
	}
}
