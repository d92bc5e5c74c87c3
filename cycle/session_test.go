package cycle_test

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// fakeClaude holds shell functions that print what claude prints.
const fakeClaude = `
echo "$*" >>argv
init() { echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$1\"}"; }
say() { echo "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}}"; }
limited() {
	echo "{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":$1}}"
	echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"result\":\"You've hit your 5-hour limit\"}"
	exit 1
}
tool() { echo "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"$1\"}]}}"; }
answer() {
	echo "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}}"
	echo "{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"$1\",\"total_cost_usd\":0.01}"
}
refused() {
	echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"result\":\"Invalid API key · Please run /login\"}"
	exit 1
}
`

// count returns how many history lines of a kind have this word.
func (h *fixture) count(kind state.LineKind, what string) (n int) {
	for _, l := range h.lines(kind) {
		if string(l.What) == what {
			n++
		}
	}
	return n
}

// newClaudeFixture returns a fixture whose agent is a fake claude that plays script.
func newClaudeFixture(t *testing.T, script string) *fixture {
	t.Helper()
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.agent.Turn.Runner = turn.Claude
	h.playScript(fakeClaude + script)
	return h
}

// sessions returns the sessions that the agent was asked to continue, one for
// each run; "-" for a fresh one.
func (h *fixture) sessions() string {
	h.t.Helper()
	var all []string
	for line := range strings.Lines(h.workFile("argv")) {
		_, session, resumed := strings.Cut(strings.TrimSpace(line), "--resume ")
		if !resumed {
			session = "-"
		}
		all = append(all, session)
	}
	return strings.Join(all, " ")
}

func (h *fixture) wantSessions(want string) {
	h.t.Helper()
	if got := h.sessions(); got != want {
		h.t.Errorf("sessions %q, want %q", got, want)
	}
}

// A session lasts through ACTIVE and across polls, and ends with the
// conversation or with a reset.
func TestSessionLastsThroughActive(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, "init s1; answer hello\n")
	say := func(id string) {
		t.Helper()
		h.receive(letter{id: "<" + id + "@example.com>", body: id})
		h.pollAfter(time.Minute)
	}
	say("one")
	say("two")
	h.wantPhase(state.ACTIVE)
	say("three")
	h.wantSessions("- s1 s1")
	wantNoWords(t, h.prompt(), "<history ")
	h.pollAfter(11 * time.Minute)
	h.wantPhase(state.IDLE)
	say("four")
	h.wantSessions("- s1 s1 -")
	wantWords(t, h.prompt(), "three")
	check(t, h.agent.Reset(t.Context(), "note", handle))
	say("five")
	h.wantSessions("- s1 s1 - -")
}

// A session that ran when the memory was reset is not continued.
func TestResetDuringTurnEndsSession(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, "init s1; [ -e again ] || { : >again; echo up >up; read -r line <go; }; answer hello\n")
	up, _ := h.pipe("up")
	_, goOn := h.pipe("go")
	h.receive(letter{id: "<one@example.com>"})
	wait := h.pollInBackground()
	up()
	check(t, h.agent.Reset(t.Context(), "note", handle))
	goOn()
	wait()
	h.receive(letter{id: "<two@example.com>"})
	h.pollAfter(time.Minute)
	h.wantSessions("- -")
}

// A session that claude cannot continue, with any error, is dropped once a fresh session has
// succeeded. The fresh session is tried at once, and the failed attempt does not count.
func TestBrokenSessionIsReplaced(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]string{
		"gone":     `echo "No conversation found with session ID: s1" >&2; exit 1`,
		"too long": `init s1; say "Prompt is too long"; echo '{"type":"result","subtype":"success","is_error":true,"result":"Prompt is too long"}'; exit 1`,
		"orphan":   `init s1; echo '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400 tool_use ids were found without tool_result blocks"}'; exit 1`,
		"wordless": `exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newClaudeFixture(t, `
case "$*" in *--resume*s1*) `+fails+`;; esac
init s$(wc -l <argv); answer hello
`)
			h.agent.Policy.MaxAttempts = 1
			h.receive(letter{id: "<one@example.com>", body: "the password is swordfish"})
			h.poll()
			h.receive(letter{id: "<two@example.com>"})
			h.pollAfter(time.Minute)
			h.receive(letter{id: "<three@example.com>"})
			h.pollAfter(time.Minute)
			h.wantSessions("- s1 - s3")
			h.wantTasks(state.Success, state.Success, state.Success)
			if replies := h.sentOf("reply"); len(replies) != 3 || replies[1].text != "hello" {
				t.Errorf("replies: %+v", replies)
			}
			if n := h.count(state.LineTurn, "fresh session"); n != 1 {
				t.Errorf("%d history lines say that the session was dropped", n)
			}
		})
	}
}

// An inference that also fails with a fresh session keeps the old session, and the operator gets
// the reason (docs/design.md, "Turns").
func TestFailedInferenceKeepsSession(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, `
init s1
[ -e fails ] && { echo '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"the model says no"}'; exit 1; }
answer hello
`)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.write("fails", "")
	h.receive(letter{id: "<two@example.com>"})
	h.pollAfter(time.Minute)
	h.receive(letter{id: "<three@example.com>"})
	h.pollAfter(time.Minute)
	h.wantSessions("- s1 - s1 -")
	replies := h.sentOf("reply")
	if len(replies) != 3 || !strings.Contains(replies[1].text, "Inference failed. the model says no") {
		t.Errorf("replies: %+v", replies)
	}
}

// An agent that is not logged in is a credential that fails. No message fails
// with it, the next one is not tried meanwhile, and all are served when the
// login works.
func TestRefusedLoginFailsNoMessage(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, "init s1; [ -e login ] || refused; answer hello\n")
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.receive(letter{id: "<two@example.com>", body: "two"})
	h.poll()
	h.wantRuns(1)
	s := h.state()
	if c := s.Credentials["agent:claude"]; c.Failures != 1 {
		t.Errorf("credentials: %+v", s.Credentials)
	}
	if len(s.Inbox) != 2 || s.Inbox[0].Status != state.Deferred || s.Inbox[0].Attempts != 0 {
		t.Errorf("inbox: %+v", s.Inbox)
	}
	for range 4 { // more often than a turn may be tried
		h.pollAfter(2 * time.Minute)
	}
	h.wantTasks()
	h.write("login", "")
	h.pollAfter(2 * time.Minute)
	h.wantTasks(state.Success, state.Success)
	if s := h.state(); len(s.Credentials) != 0 || len(s.Inbox) != 0 {
		t.Errorf("after it works: %+v, %+v", s.Credentials, s.Inbox)
	}
}
