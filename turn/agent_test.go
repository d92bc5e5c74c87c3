package turn

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// Streams in the form that the real CLIs print, which TestReal… runs.
const (
	claudeGood = `{"type":"system","subtype":"init","session_id":"s-1","cwd":"/w","tools":["Bash"]}
{"type":"system","subtype":"api_retry","attempt":1,"error_status":529,"error":"overloaded","session_id":"s-1"}
{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm","signature":"x"}],"usage":{"input_tokens":9}},"session_id":"s-1"}
{"type":"assistant","message":{"content":[{"type":"text","text":"I look."}],"usage":{"input_tokens":9}},"session_id":"s-1"}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]},"session_id":"s-1"}
{"type":"assistant","parent_tool_use_id":"t1","message":{"content":[{"type":"text","text":"a subagent speaks"}]},"session_id":"s-1"}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"f"}]},"session_id":"s-1"}
{"type":"assistant","message":{"content":[{"type":"text","text":"One file."}]},"session_id":"s-1"}
{"type":"result","subtype":"success","is_error":false,"result":"One file.","session_id":"s-1","total_cost_usd":0.25,"usage":{"input_tokens":7,"output_tokens":5,"cache_read_input_tokens":3,"cache_creation_input_tokens":2}}
`
	claudeLogin = `{"type":"system","subtype":"init","session_id":"s-1"}
{"type":"assistant","message":{"content":[{"type":"text","text":"Not logged in · Please run /login"}]},"error":"authentication_failed","session_id":"s-1"}
{"type":"result","subtype":"success","is_error":true,"result":"Not logged in · Please run /login","session_id":"s-1","total_cost_usd":0}
`
	claudeNoCredit = `{"type":"result","subtype":"success","is_error":true,"result":"Credit balance is too low","session_id":"s-1"}
`
	claudeStale = `{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"s-0","errors":["No conversation found with session ID: s-0"]}
`
	claudeTurns = `{"type":"result","subtype":"error_max_turns","is_error":false,"session_id":"s-1","total_cost_usd":1}
`
	codexGood = `{"type":"thread.started","thread_id":"c-1"}
{"type":"item.completed","item":{"id":"item_0","type":"error","message":"some warning"}}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_1","type":"reasoning","text":"hm"}}
{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"I look."}}
{"type":"item.started","item":{"id":"item_3","type":"command_execution","command":"ls","status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_3","type":"command_execution","command":"ls","exit_code":0,"status":"completed"}}
{"type":"item.completed","item":{"id":"item_4","type":"agent_message","text":"One file."}}
{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":3,"cache_write_input_tokens":0,"output_tokens":5}}
`
	codexRefused = `{"type":"thread.started","thread_id":"c-1"}
{"type":"turn.started"}
{"type":"error","message":"unexpected status 401 Unauthorized: no, url: http://x"}
{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no, url: http://x"}}
`
	codexBroken = `{"type":"thread.started","thread_id":"c-1"}
{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"half"}}
{"type":"turn.failed","error":{"message":"stream disconnected before completion"}}
`
	geminiGood = `{"type":"init","session_id":"g-1","model":"m"}
{"type":"message","role":"user","content":"the prompt"}
{"type":"message","role":"assistant","content":"I ","delta":true}
{"type":"message","role":"assistant","content":"look.","delta":true}
{"type":"tool_use","tool_name":"run_shell_command","tool_id":"t1","parameters":{}}
{"type":"tool_result","tool_id":"t1","status":"success","output":"f"}
{"type":"message","role":"assistant","content":"One ","delta":true}
{"type":"message","role":"assistant","content":"file.","delta":true}
{"type":"result","status":"success","stats":{"input_tokens":10,"input":7,"cached":3,"output_tokens":5}}
`
	geminiBroken = `{"type":"init","session_id":"g-1","model":"m"}
{"type":"message","role":"assistant","content":"half","delta":true}
{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: terminated]"},"stats":{}}
`
)

func TestStreamsOfCLIs(t *testing.T) {
	for name, c := range map[string]struct {
		runner, stream, stderr, tail string // tail: shell after the stream
		session                      string // asked for
		want                         Result // what is compared
		refused                      bool
	}{
		"claude": {runner: Claude, stream: claudeGood, want: Result{Status: Success, Text: "One file.", Session: "s-1",
			Bill: Bill{CostUSD: 0.25, Usage: Usage{7, 5, 3, 2}}}},
		"claude not logged in": {runner: Claude, stream: claudeLogin, tail: "exit 1", refused: true,
			want: Result{Status: Failed, Reason: "Not logged in · Please run /login", Session: "s-1"}},
		"claude out of credit": {runner: Claude, stream: claudeNoCredit, tail: "exit 1", refused: true,
			want: Result{Status: Failed, Reason: "Credit balance is too low"}},
		"claude stale session": {runner: Claude, stream: claudeStale, tail: "exit 1", session: "s-0",
			want: Result{Status: Failed, Reason: "No conversation found with session ID: s-0", SessionFailed: true}},
		"claude too many turns": {runner: Claude, stream: claudeTurns, tail: "exit 1",
			want: Result{Status: Failed, Reason: "error_max_turns", Bill: Bill{CostUSD: 1}}},
		"claude without a result": {runner: Claude, stream: withoutLastLine(claudeGood),
			want: Result{Status: Partial, Reason: "the agent's stream ended without a result", Text: "I look.\n\nOne file.", Session: "s-1"}},
		"claude killed": {runner: Claude, stream: withoutLastLine(claudeGood), tail: "kill -9 $$",
			want: Result{Status: Failed, Reason: "signal: killed: retrying: overloaded", Text: "I look.\n\nOne file.", Session: "s-1"}},
		"claude half a line": {runner: Claude, stream: claudeGood[:len(claudeGood)-40],
			want: Result{Status: Partial, Reason: "the agent's stream ended without a result", Text: "I look.\n\nOne file.", Session: "s-1"}},
		"claude no last newline": {runner: Claude, stream: strings.TrimSpace(claudeGood), want: Result{Status: Success,
			Text: "One file.", Session: "s-1", Bill: Bill{CostUSD: 0.25, Usage: Usage{7, 5, 3, 2}}}},
		"claude prints no stream": {runner: Claude, stream: "usage: claude\n\x00\xff\n", stderr: "bad option", tail: "exit 2",
			want: Result{Status: Failed, Reason: "exit status 2: bad option"}},
		"codex": {runner: Codex, stream: codexGood, want: Result{Status: Success, Text: "One file.", Session: "c-1",
			Bill: Bill{Meter: "c-1", Usage: Usage{Input: 7, Output: 5, CacheRead: 3}}}},
		"codex refused": {runner: Codex, stream: codexRefused, tail: "exit 1", refused: true,
			want: Result{Status: Failed, Reason: "unexpected status 401 Unauthorized: no, url: http://x", Session: "c-1", Bill: Bill{Meter: "c-1"}}},
		"codex broken off": {runner: Codex, stream: codexBroken, tail: "exit 1",
			want: Result{Status: Failed, Reason: "stream disconnected before completion", Text: "half", Session: "c-1", Bill: Bill{Meter: "c-1"}}},
		"codex stale session": {runner: Codex, stderr: "Error: thread/resume failed: no rollout found for thread id c-0", tail: "exit 1", session: "c-0",
			want: Result{Status: Failed, Reason: "exit status 1: Error: thread/resume failed: no rollout found for thread id c-0", SessionFailed: true}},
		"gemini": {runner: Gemini, stream: geminiGood, want: Result{Status: Success, Text: "One file.", Session: "g-1",
			Bill: Bill{Model: "m", Usage: Usage{Input: 7, Output: 5, CacheRead: 3}}}},
		"gemini broken off": {runner: Gemini, stream: geminiBroken, tail: "exit 1",
			want: Result{Status: Failed, Reason: "[API Error: terminated]", Text: "half", Session: "g-1", Bill: Bill{Model: "m"}}},
		"gemini not set up": {runner: Gemini, stderr: "Please set an Auth method in your settings", tail: "exit 41", refused: true,
			want: Result{Status: Failed, Reason: "exit status 41: Please set an Auth method in your settings"}},
		"gemini with a bad key": {runner: Gemini, stderr: "API key not valid. Please pass a valid API key.", tail: "exit 1", refused: true,
			want: Result{Status: Failed, Reason: "exit status 1: API key not valid. Please pass a valid API key."}},
		"exec around claude": {runner: Exec, stderr: "Not logged in", tail: "exit 1", refused: true,
			want: Result{Status: Failed, Reason: "exit status 1: Not logged in"}},
		"exec by its exit code": {runner: Exec, stderr: "the token has expired", tail: "exit 77", refused: true,
			want: Result{Status: Failed, Reason: "exit status 77: the token has expired"}},
		"exec says it and answers": {runner: Exec, stream: "an answer", stderr: "not logged in to the registry",
			want: Result{Status: Success, Text: "an answer"}},
		"exec by 401": {runner: Exec, stderr: "401 Unauthorized", tail: "exit 1", refused: true,
			want: Result{Status: Failed, Reason: "exit status 1: 401 Unauthorized"}},
		"exec by 401 on stdout": {runner: Exec, stream: "error: 401", tail: "exit 1", refused: true,
			want: Result{Status: Failed, Text: "error: 401", Reason: "exit status 1"}},
		"exec that met a closed page": {runner: Exec, stderr: "GET /x: 401 Unauthorized\nno such host", tail: "exit 1",
			want: Result{Status: Failed, Reason: "exit status 1: no such host"}},
		"exec that answers about 401": {runner: Exec, stream: "your page answers 401 Unauthorized",
			want: Result{Status: Success, Text: "your page answers 401 Unauthorized"}},
		"gemini by its exit code": {runner: Gemini, stderr: "no such account", tail: "exit 41", refused: true,
			want: Result{Status: Failed, Reason: "exit status 41: no such account"}},
		"gemini stale session": {runner: Gemini, stderr: "Error resuming session: No previous sessions found for this project.", tail: "exit 42", session: "g-0",
			want: Result{Status: Failed, Reason: "exit status 42: Error resuming session: No previous sessions found for this project.", SessionFailed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeCLI(t, c.runner, c.stream, "printf '%s' '"+c.stderr+"' >&2\n"+c.tail)
			b.Session = c.session
			res := b.run()
			got := Result{Status: res.Status, Text: res.Text, Reason: res.Reason, Session: res.Session,
				SessionFailed: res.SessionFailed, Bill: res.Bill}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if cred, ok := state.CredentialFailure(res.Credential); ok != c.refused || ok && cred.Name != "agent:"+c.runner {
				t.Errorf("credential %v", res.Credential)
			}
		})
	}
}

// refusals are last lines about a refused login, of a program of any runner but api. harmless are other
// lines.
var (
	refusals = []string{
		"401", "HTTP 401", "HTTP/1.1 401 Unauthorized", "Error code: 401 - {'error': {'message': 'Incorrect API key provided'}}",
		"curl: (22) The requested URL returned error: 401", "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://x",
		"API Error: 401 {\"type\":\"error\"}", "status=401", "request failed (401)", "Unauthorized", "error: unauthorised",
		"the token has expired", "API key is invalid", "api_key revoked", "invalid access token", "Invalid credentials",
		"invalid_grant", "Authentication failed", "authentication required", "Please log in again", "login required", "You must sign in",
		"your session has expired", "password was rejected",
	}
	harmless = []string{
		"port 4010 is in use", "line 401: syntax error", "took 401 ms", "401 files changed", "the disk is full", "exit status 1",
		"HTTP 500", "connection refused", "10.0.0.401", "no token in the stream", "403 Forbidden", "error in file login.py",
	}
)

// TestAnyLogin checks the words of any program that mean a refused login, with each runner, and
// words that do not.
func TestAnyLogin(t *testing.T) {
	for _, runner := range []string{Exec, Claude, Codex, Gemini, ACP} {
		kind, _, err := agentFor(runner)
		if err != nil {
			t.Fatal(err)
		}
		s := &supervisor{config: Config{Runner: runner}, output: newOutput(Config{}, Attempt{}, kind, nil)}
		for _, words := range refusals {
			if failedLogin(s, "exit status 1: "+words, "") == "" {
				t.Errorf("%s: %q does not count as a refusal", runner, words)
			}
		}
		for _, words := range harmless {
			if line := failedLogin(s, "exit status 1: "+words, ""); line != "" {
				t.Errorf("%s: %q counts as a refusal", runner, line)
			}
		}
	}
}

// failedLogin returns the error about the login of a program that failed with exit code 1 for this
// reason and reported this error, or "".
func failedLogin(s *supervisor, reason, reported string) string {
	s.output.faults = tail{max: stderrTail}
	fmt.Fprintln(&s.output.faults, reported)
	res := Result{Status: Failed, Reason: reason, ExitCode: 1}
	s.classifyFailure(&res)
	if res.Credential == nil {
		return ""
	}
	return res.Credential.Error()
}

// TestDocumentedLogins tries each word and each exit code that docs/passwords.md names as a
// refused login, with its runner.
func TestDocumentedLogins(t *testing.T) {
	text, err := os.ReadFile("../docs/passwords.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	tried := map[string]int{}
	for _, runner := range []string{Exec, Claude, Codex, Gemini, ACP, API} {
		kind, _, err := agentFor(runner)
		if err != nil {
			t.Fatal(err)
		}
		s := &supervisor{config: Config{Runner: runner}, output: newOutput(Config{}, Attempt{}, kind, nil)}
		item := regexp.MustCompile("(?m)^- `" + runner + "`: (?:exit code (\\d+))?(.*(?:\n  .*)*)").FindSubmatch(text)
		if item == nil {
			t.Errorf("no list item has the words of %s", runner)
			continue
		}
		if code, _ := strconv.Atoi(string(item[1])); code != kind.loginExit {
			t.Errorf("%s: the exit code is %d, and %d is documented", runner, kind.loginExit, code)
		}
		for _, word := range quoted.FindAllSubmatch(item[2], -1) {
			words := string(word[1])
			if words == Exec || words == "auth_required" { // the words of another runner; an error of the protocol
				continue
			}
			tried[runner]++
			if failedLogin(s, "", "error: "+words+" (as it says)") == "" {
				t.Errorf("%s: %q does not count", runner, words)
			}
		}
		if other := failedLogin(s, "no such file", "no such file"); other != "" {
			t.Errorf("%s: %q counts", runner, other)
		}
	}
	if tried[Exec] < 5 || tried[Claude] < 5 || tried[Codex] < 5 || tried[Gemini] < 3 || tried[ACP] < 3 {
		t.Errorf("tried: %v", tried)
	}
}

// TestFaultBeforeStderr checks that the error that an agent reports is the reason of its failure, not
// its stderr, in either order.
func TestFaultBeforeStderr(t *testing.T) {
	failing := exec.Command("/bin/sh", "-c", "exit 3")
	if err := failing.Run(); err == nil {
		t.Fatal("exit 3 is not an error")
	}
	for runner, c := range map[string]struct{ fault, refusal string }{
		Claude: {`{"type":"assistant","error":"%s"}`, "authentication_failed"},
		Codex:  {`{"type":"error","message":"%s"}`, "401 unauthorized"},
		Gemini: {`{"type":"error","message":"%s"}`, "api key not valid"},
		API:    {`{"kind":"error","text":"%s"}`, "credential refused: 401"},
		ACP:    {`{"kind":"error","text":"%s"}`, "credential refused: 401"},
	} {
		for _, stderrLast := range []bool{false, true} {
			kind, _, err := agentFor(runner)
			if err != nil {
				t.Fatal(err)
			}
			s := &supervisor{
				config:  Config{Runner: runner},
				process: &process{state: failing.ProcessState, exitedAt: time.Now()}, output: newOutput(Config{}, Attempt{}, kind, nil),
			}
			parse := kind.parse()
			report := func() {
				for _, e := range parse(fmt.Appendf(nil, c.fault, c.refusal+", as it reports")) {
					s.output.apply(e)
				}
			}
			complain := func() { io.WriteString(&s.output.stderr, c.refusal+", on stderr\n") }
			if stderrLast {
				report()
				complain()
			} else {
				complain()
				report()
			}
			res := Result{ExitCode: 3, Stderr: s.output.stderr.String()}
			s.decideStatus(&res, "")
			s.classifyFailure(&res)
			if want := "exit status 3: " + c.refusal + ", as it reports"; res.Reason != want {
				t.Errorf("%s, stderr last %v: the reason is %q, want %q", runner, stderrLast, res.Reason, want)
			}
			if res.Credential == nil || !strings.Contains(res.Credential.Error(), "as it reports") {
				t.Errorf("%s, stderr last %v: the login was refused, by %v", runner, stderrLast, res.Credential)
			}
		}
	}
}

// TestDoneBeforeText checks that the answer is the text of Done, or without one the text after the
// last tool, and that a program that could not be started has no answer.
func TestDoneBeforeText(t *testing.T) {
	for _, c := range []struct{ done, fault, want, reason string }{
		{"the answer", "", "the answer", ""},
		{"", "", "after the tool", ""},
		{"the answer", "no such file", "before itafter the tool", "cannot start the command: no such file"},
	} {
		config := Config{}.withDefaults()
		s := &supervisor{config: config, process: &process{}, output: newOutput(config, Attempt{Dir: t.TempDir()}, agent{}, nil)}
		for _, e := range []Event{{Kind: TextDelta, Text: "before it"}, {Kind: ToolUse}, {Kind: ToolResult}, {Kind: TextDelta, Text: "after the tool"}, {Kind: Done, Text: c.done}} {
			s.output.apply(e)
		}
		var res Result
		s.decideStatus(&res, c.fault)
		s.setAnswer(&res)
		if res.Text != c.want || res.Reason != c.reason {
			t.Errorf("Done says %q, fault %q: %q, %q; want %q, %q", c.done, c.fault, res.Text, res.Reason, c.want, c.reason)
		}
	}
}

func withoutLastLine(stream string) string {
	return stream[:strings.LastIndexByte(strings.TrimSpace(stream), '\n')+1]
}

// fakeCLI prepares an attempt of an agent that prints stream and then runs tail.
func fakeCLI(t *testing.T, runner, stream, tail string) *fixture {
	t.Helper()
	b := newFixture(t, "printf '%s ' \"$@\" > argv\ncat \"$0.stream\"\n"+tail)
	b.Runner = runner
	if err := os.WriteFile(b.Command[0]+".stream", []byte(stream), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAgentArguments checks the arguments of each program. While money is short those of low_args
// come last, where the program takes them, also with a session.
func TestAgentArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runner, session string
		low             bool
		want            string
	}{
		{Claude, "", false, "-p --output-format stream-json --verbose --extra 1 "},
		{Claude, "s-1", false, "-p --output-format stream-json --verbose --resume s-1 --extra 1 "},
		{Claude, "s-1", true, "-p --output-format stream-json --verbose --resume s-1 --extra 1 --model small "},
		{Codex, "", false, "exec --json --skip-git-repo-check --extra 1 - "},
		{Codex, "c-1", false, "exec --json --skip-git-repo-check --extra 1 resume c-1 - "},
		{Codex, "c-1", true, "exec --json --skip-git-repo-check --extra 1 --model small resume c-1 - "},
		{Gemini, "", false, "--output-format stream-json --skip-trust --extra 1 "},
		{Gemini, "g-1", false, "--output-format stream-json --skip-trust --resume g-1 --extra 1 "},
		{Gemini, "g-1", true, "--output-format stream-json --skip-trust --resume g-1 --extra 1 --model small "},
		{Exec, "", true, "--extra 1 --model small "},
		{Claude, "--dangerously-skip-permissions", false, "-p --output-format stream-json --verbose --extra 1 "},
		{Claude, "a b; rm", false, "-p --output-format stream-json --verbose --extra 1 "},
	} {
		b := fakeCLI(t, c.runner, "", "")
		b.Session, b.Extra = c.session, []string{"--extra", "1"}
		if c.low {
			if c.runner == Codex { // which does not start with two models
				b.Extra = []string{"-m", "large", "--extra", "1", "--model=larger"}
			}
			b.Low.Args = []string{"--model", "small"}
			config, attempt := b.WithLow(b.Attempt)
			b.Config, b.Attempt = *config, attempt
		}
		b.run()
		if got := readFile(t, b.Workdir, "argv"); got != c.want {
			t.Errorf("%s %q, low %v: %q, want %q", c.runner, c.session, c.low, got, c.want)
		}
		if started := readFile(t, b.Dir, "events.jsonl"); strings.Contains(started, `"--model","small"`) != c.low {
			t.Errorf("%s, low %v: the record of the start is %s", c.runner, c.low, started)
		}
	}
}

// TestLowCommand checks the command that runs while money is short, and whether it is cheaper.
func TestLowCommand(t *testing.T) {
	c := Config{Runner: Exec, Command: []string{"large", "x"}, Low: Low{Command: []string{"cheap"}}}
	if low, _ := c.WithLow(Attempt{}); !slices.Equal(low.Command, []string{"cheap"}) || c.Command[0] != "large" {
		t.Errorf("the command is %q, and the usual one %q", low.Command, c.Command)
	}
	for _, c := range []struct {
		low  Low
		want bool
	}{
		{Low{}, false}, {Low{Command: []string{"x"}}, true}, {Low{Model: "m"}, true}, {Low{Args: []string{"--effort", "low"}}, false},
		{Low{Args: []string{"-m", "small"}}, true}, {Low{Args: []string{"--model=small"}}, true},
		{Low{Command: []string{"p", "--model", "usual"}}, false}, {Low{Args: []string{"-m", "usual"}}, false}, // the same model
	} {
		usual := Config{Command: []string{"p", "--model", "usual"}, Low: c.low}
		if got := usual.Cheaper(); got != c.want {
			t.Errorf("%+v is cheaper: %v", c.low, got)
		}
	}
}

// TestDefaultCommand checks that the runner's own program is looked up in PATH without a command.
func TestDefaultCommand(t *testing.T) {
	b := fakeCLI(t, Gemini, geminiGood, "")
	if err := os.Rename(b.Command[0], filepath.Join(b.Workdir, "gemini")); err != nil {
		t.Fatal(err)
	}
	os.Rename(b.Command[0]+".stream", filepath.Join(b.Workdir, "gemini.stream"))
	b.Command = nil
	b.Config.Env = map[string]string{"PATH": b.Workdir + ":/usr/bin:/bin"}
	b.run().check(t, Success, ExitClean, "One file.", "")
}

// TestSilentAfterTool checks that an agent that may be silent, and prints no text after its last
// tool, has no answer. For another agent the text before the tool is the answer.
func TestSilentAfterTool(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(claudeGood, "\n")
	silent := strings.Join(lines[:7], "") + strings.ReplaceAll(lines[8], `"result":"One file."`, `"result":""`)
	for may, want := range map[bool]string{true: "", false: "I look."} {
		b := fakeCLI(t, Claude, silent, "")
		b.MayBeSilent = may
		if res := b.run(); res.Status != Success || res.Text != want {
			t.Errorf("may be silent %v: %s, %q: %s", may, res.Status, res.Text, res.Reason)
		}
	}
}

// TestRefusedActions checks that the result lists the actions that an agent was not permitted, in the
// words of each of the real CLIs.
func TestRefusedActions(t *testing.T) {
	for name, c := range map[string]struct{ runner, stream, stderr, want string }{
		"claude": {Claude, `{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"t1"}
{"type":"result","subtype":"success","is_error":false,"result":"I could not.","permission_denials":[{"tool_name":"AskUserQuestion","tool_use_id":"t0","tool_input":{"questions":[]}},{"tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"git push"}},{"tool_name":"Write","tool_use_id":"t2","tool_input":{"file_path":"/etc/x","content":"y"}},{"tool_name":"Bash","tool_use_id":"t3","tool_input":{"command":"git push"}}]}
`, "", "Bash: git push|Write: /etc/x"},
		"codex, declined": {Codex, `{"type":"thread.started","thread_id":"c-1"}
{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"git push","status":"declined"}}
{"type":"item.completed","item":{"id":"i2","type":"agent_message","text":"I could not."}}
{"type":"turn.completed","usage":{}}
`, "", "command_execution: git push"},
		"codex, on stderr": {Codex, `{"type":"thread.started","thread_id":"c-1"}
{"type":"item.completed","item":{"id":"i2","type":"agent_message","text":"I could not."}}
{"type":"turn.completed","usage":{}}
`, "2026-11-28T04:55:49Z ERROR codex_core::tools::router: error=exec_command failed: CreateProcess { message: \"Rejected(\\\"rm -rf x rejected: not permitted\\\")\" }", "exec_command: rm -rf x rejected: not permitted"},
		"gemini": {Gemini, `{"type":"init","session_id":"g-1","model":"m"}
{"type":"tool_use","tool_name":"run_shell_command","tool_id":"t1","parameters":{"command":"git push"}}
{"type":"tool_result","tool_id":"t1","status":"error","error":{"type":"tool_not_registered","message":"Tool not found"}}
{"type":"tool_use","tool_name":"read_file","tool_id":"t2","parameters":{"file_path":"x"}}
{"type":"tool_result","tool_id":"t2","status":"error","error":{"type":"file_not_found","message":"no such file"}}
{"type":"message","role":"assistant","content":"I could not.","delta":true}
{"type":"result","status":"success","stats":{}}
`, "", "run_shell_command: git push"},
	} {
		b := fakeCLI(t, c.runner, c.stream, "printf '%s' '"+c.stderr+"' >&2")
		if res := b.run(); res.Status != Success || res.Text != "I could not." || strings.Join(res.Refused, "|") != c.want {
			t.Errorf("%s: %s %q, not permitted: %q", name, res.Status, res.Text, res.Refused)
		}
	}
}

// TestLimitsOfStreams checks that a limit and its end are read from the streams of the real CLIs.
func TestLimitsOfStreams(t *testing.T) {
	const synthetic = `{"type":"assistant","message":{"model":"<synthetic>","content":[{"type":"text","text":"%s"}]},"error":"%s","api_error_status":%d}
{"type":"result","subtype":"success","is_error":true,"api_error_status":%d,"result":"%s"}
`
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	for name, c := range map[string]struct {
		runner, stream string
		kind           state.OutageKind
		until          time.Time
	}{
		"claude, a subscription": {Claude, fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%d,"rateLimitType":"five_hour"}}
`, at.Unix()) + fmt.Sprintf(synthetic, "You have hit your 5-hour limit", "rate_limit", 429, 429, "You have hit your 5-hour limit"), state.UsageLimit, at},
		"claude, a key":    {Claude, fmt.Sprintf(synthetic, "API Error: Request rejected (429)", "rate_limit", 429, 429, "API Error: Request rejected (429)"), state.UsageLimit, time.Time{}},
		"claude, overload": {Claude, fmt.Sprintf(synthetic, "API Error: 529 Overloaded", "server_error", 529, 529, "API Error: 529 Overloaded"), state.Overload, time.Time{}},
		"claude, an older one": {Claude, `{"type":"assistant","message":{"model":"<synthetic>","content":[{"type":"text","text":"Claude AI usage limit reached|` + fmt.Sprint(at.Unix()) + `"}]}}
{"type":"result","subtype":"success","is_error":true,"result":"Claude AI usage limit reached|` + fmt.Sprint(at.Unix()) + `"}
`, state.UsageLimit, at},
		"codex": {Codex, `{"type":"thread.started","thread_id":"c-1"}
{"type":"error","message":"You have hit your usage limit. Upgrade to Pro or try again at ` + at.In(Config{}.zone()).Format("Jan 2, 2006 15:04") + `."}
{"type":"turn.failed","error":{"message":"You have hit your usage limit. Upgrade to Pro or try again at ` + at.In(Config{}.zone()).Format("Jan 2, 2006 15:04") + `."}}
`, state.UsageLimit, at.Truncate(time.Minute)},
		"gemini": {Gemini, `{"type":"init","session_id":"g-1","model":"m"}
{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: You have exhausted your daily quota on this model.]"},"stats":{}}
`, state.UsageLimit, time.Time{}},
	} {
		b := fakeCLI(t, c.runner, c.stream, "exit 1")
		b.Session = "s-0" // a limit is not the session's fault
		res := b.run()
		if res.Status != Failed || res.Outage == nil || res.SessionFailed || res.Credential != nil {
			t.Errorf("%s: %+v", name, res)
			continue
		}
		if res.Outage.Kind != c.kind || !res.Outage.Until.Equal(c.until) {
			t.Errorf("%s: %+v, want %s until %v", name, *res.Outage, c.kind, c.until)
		}
	}
	// A limit before more work of the agent does not count.
	b := fakeCLI(t, Claude, `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1}}
`+claudeGood, "")
	if res := b.run(); res.Status != Success || res.Outage != nil {
		t.Errorf("%+v", res)
	}
}
