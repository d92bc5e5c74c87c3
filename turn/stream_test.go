package turn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// Streams in the shapes that the real CLIs print (TestReal… drives those),
// each whole in one place so that it can be read.
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

func TestStreams(t *testing.T) {
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
			want: Result{Status: Failed, Reason: "No conversation found with session ID: s-0", SessionStale: true}},
		"claude too many turns": {runner: Claude, stream: claudeTurns, tail: "exit 1",
			want: Result{Status: Failed, Reason: "error_max_turns", Bill: Bill{CostUSD: 1}}},
		"claude without a result": {runner: Claude, stream: untilLast(claudeGood),
			want: Result{Status: Partial, Reason: "the agent's stream ended without a result", Text: "I look.\n\nOne file.", Session: "s-1"}},
		"claude killed": {runner: Claude, stream: untilLast(claudeGood), tail: "kill -9 $$",
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
			want: Result{Status: Failed, Reason: "exit status 1: Error: thread/resume failed: no rollout found for thread id c-0", SessionStale: true}},
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
		"exec that met a closed page": {runner: Exec, stderr: "401 Unauthorized", tail: "exit 1",
			want: Result{Status: Failed, Reason: "exit status 1: 401 Unauthorized"}},
		"gemini stale session": {runner: Gemini, stderr: "Error resuming session: No previous sessions found for this project.", tail: "exit 42", session: "g-0",
			want: Result{Status: Failed, Reason: "exit status 42: Error resuming session: No previous sessions found for this project.", SessionStale: true}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeCLI(t, c.runner, c.stream, "printf '%s' '"+c.stderr+"' >&2\n"+c.tail)
			b.Session = c.session
			res := b.run()
			got := Result{Status: res.Status, Text: res.Text, Reason: res.Reason, Session: res.Session,
				SessionStale: res.SessionStale, Bill: res.Bill}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if cred, ok := state.CredentialFailure(res.Credential); ok != c.refused || ok && cred.Name != "agent:"+c.runner {
				t.Errorf("credential %v", res.Credential)
			}
		})
	}
}

func untilLast(stream string) string {
	return stream[:strings.LastIndexByte(strings.TrimSpace(stream), '\n')+1]
}

// fakeCLI is an agent that prints stream and then does what tail says.
func fakeCLI(t *testing.T, runner, stream, tail string) *bench {
	t.Helper()
	b := newBench(t, "printf '%s ' \"$@\" > argv\ncat \"$0.stream\"\n"+tail)
	b.Runner = runner
	if err := os.WriteFile(b.Command[0]+".stream", []byte(stream), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestArgv(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ runner, session, want string }{
		{Claude, "", "-p --output-format stream-json --verbose --extra 1 "},
		{Claude, "s-1", "-p --output-format stream-json --verbose --resume s-1 --extra 1 "},
		{Codex, "", "exec --json --skip-git-repo-check --extra 1 - "},
		{Codex, "c-1", "exec --json --skip-git-repo-check --extra 1 resume c-1 - "},
		{Gemini, "", "--output-format stream-json --skip-trust --extra 1 "},
		{Gemini, "g-1", "--output-format stream-json --skip-trust --resume g-1 --extra 1 "},
		{Claude, "--dangerously-skip-permissions", "-p --output-format stream-json --verbose --extra 1 "},
		{Claude, "a b; rm", "-p --output-format stream-json --verbose --extra 1 "},
	} {
		b := fakeCLI(t, c.runner, "", "")
		b.Session, b.Extra = c.session, []string{"--extra", "1"}
		b.run()
		if got := read(t, b.Workdir, "argv"); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.runner, c.session, got, c.want)
		}
	}
}

// Without a command the runner's own program is looked up in PATH.
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

// A line over the limit is an event; what comes after it still counts.
func TestHugeLine(t *testing.T) {
	t.Parallel()
	b := fakeCLI(t, Claude, "", `printf '{"type":"user","x":"'; head -c 6000000 /dev/zero | tr '\0' x; echo '"}'; cat "$0.stream"`)
	os.WriteFile(b.Command[0]+".stream", []byte(claudeGood), 0o600)
	b.run().check(t, Success, ExitClean, "One file.", "")
	if log := read(t, b.Dir, "events.jsonl"); !strings.Contains(log, "a line of 6000023 bytes") {
		t.Error("the line was not noted")
	}
}

func TestEndlessLine(t *testing.T) {
	t.Parallel()
	b := fakeCLI(t, Codex, "", `head -c 200000000 /dev/zero`)
	b.run().check(t, Failed, ExitClean, "", "the agent's stream ended without a result")
}

// A gigabyte without a newline takes no more memory than a line may.
func TestEndlessLineIsNotKept(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	events := 0
	readLines(io.LimitReader(zeros{}, 1<<30), claudeParser(), func(Event) { events++ })
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 || events != 1 {
		t.Errorf("%d bytes for %d events", grown, events)
	}
}

// zeros is an endless /dev/zero.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// A process that stays after it is done is ended, and its answer is good.
func TestLingering(t *testing.T) {
	t.Parallel()
	b := fakeCLI(t, Claude, claudeGood, "exec sleep 1000")
	b.Linger = 100 * time.Millisecond
	b.run().check(t, Success, ExitIdle, "One file.", "")

	// One that goes to work again is not.
	more := `{"type":"assistant","message":{"content":[{"type":"text","text":"And more."}]}}` + "\n" + claudeGood
	b = fakeCLI(t, Claude, claudeGood+more, "")
	b.run().check(t, Success, ExitClean, "One file.", "")
	b = fakeCLI(t, Claude, claudeGood+more[:strings.IndexByte(more, '\n')+1], "")
	b.run().check(t, Partial, ExitClean, "I look.\n\nOne file.\n\nAnd more.", "without a result")
}

// The no-output timeout waits for a tool, but not for one that has answered.
func TestSilenceWaitsForTools(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(claudeGood, "\n")
	use, result, rest := strings.Join(lines[:5], ""), lines[6], lines[7]+lines[8]
	run := func(limit time.Duration, script string) Result {
		b := newBench(t, script)
		for name, text := range map[string]string{"use": use, "result": result, "rest": rest} {
			writeConfig(t, filepath.Join(b.Workdir, name), text)
		}
		b.Runner, b.Silence = Claude, limit
		return b.run()
	}
	res, _ := withTime(func(limit time.Duration) Result {
		return run(limit, fmt.Sprintf("cat use; sleep %.3f; cat result rest", 1.5*limit.Seconds()))
	}, succeeded)
	res.check(t, Success, ExitClean, "One file.", "")

	res, limit := withTime(func(limit time.Duration) Result { return run(limit, `cat use result; exec sleep 1000`) }, printed)
	res.check(t, TimedOut, ExitError, "I look.", fmt.Sprintf("printed nothing for %v", limit))
}

// An agent that is refused and tries again until the deadline is a credential
// failure all the same.
func TestRefusedUntilTheDeadline(t *testing.T) {
	res, _ := withTime(func(limit time.Duration) Result {
		b := fakeCLI(t, Codex, `{"type":"error","message":"Reconnecting... (unexpected status 401 Unauthorized)"}`+"\n", "exec sleep 1000")
		b.Timeout = limit
		return b.run()
	}, func(r Result) bool { return r.Credential != nil })
	if _, ok := state.CredentialFailure(res.Credential); !ok || res.Status != TimedOut {
		t.Errorf("%+v", res)
	}
}

// Another process sees what the agent does.
func TestLiveView(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(claudeGood, "\n")
	b := fakeCLI(t, Claude, strings.Join(lines[:5], ""), "while [ ! -e go ]; do sleep 0.02; done\ncat rest")
	os.WriteFile(filepath.Join(b.Workdir, "rest"), []byte(strings.Join(lines[6:], "")), 0o600)
	if _, err := ReadLive(b.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before the start: %v", err)
	}
	ended := make(chan Result)
	go func() { ended <- b.run() }()
	await(t, "the tool shows", func() bool {
		l, err := ReadLive(b.Dir)
		return err == nil && l.State == StateRunningTool && l.WaitingTools == 1 && l.Tool == "Bash" &&
			l.Lifecycle == LifecycleWorking && l.PID > 0 && l.Session == "s-1" && l.TurnID == "t1" && l.Epoch == 1 &&
			l.KillAt.After(l.LastOutput) && !l.Started.IsZero()
	})
	writeConfig(t, filepath.Join(b.Workdir, "go"), "")
	(<-ended).check(t, Success, ExitClean, "One file.", "")
	l, err := ReadLive(b.Dir)
	if err != nil || l.Lifecycle != LifecycleIdle || l.CostUSD != 0.25 || l.WaitingTools != 0 || !l.KillAt.IsZero() {
		t.Errorf("after the end: %+v, %v", l, err)
	}
}

// Whatever a stream holds, a parser gives events of known kinds and does not
// crash; what it did not understand is kept short.
func fuzzParser(f *testing.F, parse func() parser, streams ...string) {
	for _, s := range streams {
		for line := range strings.Lines(s) {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(`{"type":"assistant","message":{"content":"plain"}}`))
	f.Add([]byte(`{"type":null,"item":[],"error":{}}`))
	f.Add([]byte(`[]`))
	known := map[EventKind]bool{SessionStart: true, Thinking: true, TextDelta: true, ToolUse: true,
		ToolResult: true, Done: true, Error: true, Unknown: true}
	f.Fuzz(func(t *testing.T, stream []byte) {
		m := newActivity()
		readLines(strings.NewReader(string(stream)), parse(), func(e Event) {
			if !known[e.Kind] {
				t.Errorf("kind %q", e.Kind)
			}
			if e.Kind == Unknown && len(e.Text) > maxUnknown {
				t.Errorf("unknown of %d bytes", len(e.Text))
			}
			m.apply(e)
		})
		if _, waiting := m.waitingTools(); waiting > len(stream) {
			t.Errorf("%d tools in %d bytes", waiting, len(stream))
		}
	})
}

func FuzzClaude(f *testing.F) {
	fuzzParser(f, claudeParser, claudeGood, claudeLogin, claudeStale, claudeTurns)
}
func FuzzCodex(f *testing.F) { fuzzParser(f, codexParser, codexGood, codexRefused, codexBroken) }
func FuzzAPI(f *testing.F) {
	fuzzParser(f, func() parser { return parseAPI }, apiGood, apiCut, apiRefused)
}
func FuzzGemini(f *testing.F) {
	fuzzParser(f, func() parser { return parseGemini }, geminiGood, geminiBroken)
}
