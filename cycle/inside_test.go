package cycle_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// The first submission is the deliverable, whatever the agent prints. A second one, and one after
// the turn, are refused.
func TestSubmitOnce(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(`
us submit 'the first' || echo "first refused" >>refused
us submit 'the second' 2>>refused || echo "second refused" >>refused
AGENTSTATELOOP_EPOCH=99 us submit 'of another epoch' 2>>refused || echo "stale refused" >>refused
echo 'printed besides'
`)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantTasks(state.Success)
	h.wantReplies("the first")
	want := cycle.ErrSubmitted.Error() + "\nsecond refused\n" + cycle.ErrStale.Error() + "\nstale refused"
	if got := h.workFile("refused"); got != want {
		t.Errorf("refused:\n%s\nwant:\n%s", got, want)
	}
	runs := strings.Fields(h.runs()[0])
	late := cycle.Inside{TurnID: runs[0], Epoch: 1}
	if err := h.agent.Submit(t.Context(), late, cycle.Submission{Text: "late"}); err != cycle.ErrStale {
		t.Errorf("after the turn: %v", err)
	}
}

// Of many submits at once one counts, and only its caller learns that it does.
func TestConcurrentSubmits(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript("for i in 1 2 3 4 5 6; do { us submit \"number $i\" 2>/dev/null && echo \"number $i\" >>took; } & done; wait; echo printed\n")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantReplies(h.workFile("took"))
}

// A file up to a size is attached to the reply; a larger file is named.
func TestSubmittedFilesGoWithTheReply(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(`
echo 'the report' >report.txt
head -c 19000000 /dev/zero >"$AGENTSTATELOOP_OUTPUT/large.bin"
us submit 'see the files' --file report.txt
`)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantTasks(state.Success)
	reply := h.sentOf("reply")[0]
	if !strings.Contains(reply.raw, `filename=report.txt`) && !strings.Contains(reply.raw, `filename="report.txt"`) {
		t.Errorf("report.txt is not attached:\n%.2000s", reply.raw)
	}
	if !strings.HasPrefix(reply.text, "see the files") || !strings.Contains(reply.text, "not attached: large.bin: the attachments of a reply are limited to 18 MiB") {
		t.Errorf("reply: %q", reply.text)
	}
	if len(reply.raw) > 100_000 {
		t.Errorf("the reply has %d bytes", len(reply.raw))
	}
}

// A submission of an orphan that is being ended counts.
func TestOrphanSubmits(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	up, _ := h.pipe("up")
	h.playScript("exec 2>>errors; trap 'us submit \"just in time\"; exit' TERM\necho up >up\nwhile :; do sleep 0.05; done\n")
	h.receive(letter{id: "<one@example.com>"})
	h.killRunner(up)
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success)
	if replies := h.sentOf("reply"); len(replies) != 1 || replies[0].text != "just in time" || len(h.runs()) != 1 {
		t.Errorf("replies: %+v after %q; %s", replies, h.runs(), h.workFile("errors"))
	}
}

// A runner that is told to stop, as by a shutdown, returns its message, and the attempt does not
// count. A turn that was submitted or stopped ends nevertheless.
func TestStoppedRunnerReturnsMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does    string
		stop    bool
		runs    int
		outcome state.Outcome
	}{
		"at work":   {does: ":", runs: 2, outcome: state.Success},
		"submitted": {does: "us submit done", runs: 1, outcome: state.Success},
		"stopped":   {does: ":", stop: true, runs: 1, outcome: state.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.agent.Policy.MaxAttempts = 1
			up, _ := h.pipe("up")
			h.playScript(c.does + "\n[ -e again ] || { : >again; echo up >up; exec sleep 300; }\necho done\n")
			h.receive(letter{id: "<one@example.com>"})
			ctx, cancel := context.WithCancel(t.Context())
			done := pollOf(ctx, h.agent, cycle.PollOptions{})
			up()
			if c.stop {
				check(t, h.blueprint.agent(h.clock.Now).Stop(t.Context(), "test"))
			}
			cancel()
			<-done // its error, if any, is that it was told to stop
			h.pollAfter(time.Minute)
			h.wantTasks(c.outcome)
			if runs := h.runs(); len(runs) != c.runs {
				t.Errorf("it ran %d times, want %d", len(runs), c.runs)
			}
			h.onlyReply()
		})
	}
}

// askingScript is an agent that asks, and answers with the reply that it gets.
const askingScript = `
if [ ! -e asked ]; then
	: >asked
	us ask ` + peer + ` 'which commit?' 10m >>ids
	echo '{"note":"for later"}' >"$AGENTSTATELOOP_OUTPUT/note.json"
	echo 'I have asked.'
	exit
fi
[ -e "$AGENTSTATELOOP_OUTPUT/note.json" ] && echo 'the box came along'
echo "told: $(grep -A1 '^<report ' prompt | grep -v '<report ' | tr '\n' ' ')"
`

// A question suspends the turn; its answer resumes it once, as the same turn,
// with its box.
func TestPeerQuestionAndAnswer(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(askingScript)
	h.receive(letter{id: "<one@example.com>", body: "deploy it"})
	h.poll()
	asked := h.reports()
	if len(asked) != 1 || asked[0].Kind != mesh.KindAsk || asked[0].ID != h.workFile("ids") || fmt.Sprint(asked[0].Hops) != "["+handle+"]" {
		t.Fatalf("asked: %+v", asked)
	}
	h.wantTasks()
	if r := h.pollAfter(time.Minute); r.Turns != 0 {
		t.Errorf("before the answer: %+v", r)
	}
	report := mesh.Message{ID: "r1", Kind: mesh.KindReport, Correlation: asked[0].ID, Text: "4c1f is live"}
	h.post(report)
	h.pollAfter(time.Minute)
	tasks := h.wantTasks(state.Success)
	replies := h.sentOf("reply")
	if len(replies) != 1 || !strings.HasPrefix(replies[0].text, "the box came along\ntold: 4c1f is live") {
		t.Errorf("replies: %+v", replies)
	}
	wantWords(t, h.prompt(), "deploy it", "You asked @"+peer+" ("+asked[0].ID+"): which commit?", "<said #>\nI have asked.\n</said #>")
	var ids []string
	for _, run := range h.runs() {
		ids = append(ids, strings.Fields(run)[0])
	}
	if len(ids) != 2 || ids[0] != ids[1] || ids[0] != tasks[0].TurnID {
		t.Errorf("runs: %q, task %s", h.runs(), tasks[0].TurnID)
	}
	// Replayed under its id, and late under another id: acknowledged, with no
	// effect.
	report.ID = "r2"
	h.post(report)
	if r := h.pollAfter(time.Minute); r.Turns != 0 || len(h.waiting()) != 0 {
		t.Errorf("late report: %+v", r)
	}
	h.wantTasks(state.Success)
}

// A question without an answer is answered by a timeout at its deadline.
func TestPeerQuestionTimesOut(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(askingScript)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.pollAfter(9 * time.Minute)
	h.wantTasks()
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success)
	wantWords(t, h.onlyReply().text, "told: timeout")
}

// The operator does not wait for other agents: an operator's message ends the
// waiting, the turn is finished, and the message is next.
func TestOperatorMessageEndsWaiting(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.playScript(askingScript)
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.poll()
	h.receive(letter{id: "<two@example.com>", body: "two"})
	h.pollAfter(time.Minute)
	tasks := h.wantTasks(state.Success, state.Success)
	if tasks[0].TurnID == tasks[1].TurnID {
		t.Errorf("tasks: %+v", tasks)
	}
	replies := h.sentOf("reply")
	if len(replies) != 2 || !strings.Contains(replies[0].text, "told: timeout: superseded") || replies[0].head.InReplyTo != "<one@example.com>" || replies[1].head.InReplyTo != "<two@example.com>" {
		t.Errorf("replies: %+v", replies)
	}
}

// A message of `send` is sent at once, and no turn waits for it.
func TestSendLeavesDuringTheTurn(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript("us send " + peer + " 'the deploy is done' && us ask " + handle + " 'me?' 1m 2>self; echo ok\n")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantTasks(state.Success)
	if got := h.reports(); len(got) != 1 || got[0].Kind != mesh.KindMessage || got[0].Text != "the deploy is done" {
		t.Errorf("the peer got %+v", got)
	}
	if h.workFile("self") != "an agent cannot send itself a message" {
		t.Errorf("asking oneself: %q", h.workFile("self"))
	}
}

// A submitted file that is already in the output box is attached unchanged, by whatever path it
// was named. The names of the deliverable are reserved.
func TestSubmitFileOfOutputFolder(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(`
ln -s "$AGENTSTATELOOP_OUTPUT" box
echo 'the report' >box/report.txt
echo 'a table' >table.txt
ln table.txt box/table.txt
mkfifo box/pipe.txt
echo 'not this' >deliverable.txt
echo 'no pipe' >pipe.txt
us submit 'see' --file deliverable.txt 2>>refused
us submit 'see' --file pipe.txt 2>/dev/null || echo 'pipe refused' >>refused
us submit 'see the files' --file box/report.txt --file table.txt
`)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantTasks(state.Success)
	for name, want := range map[string]string{"report.txt": "the report\n", "table.txt": "a table\n"} {
		found, err := filepath.Glob(h.agent.Store.Path("turns/*/1/output/" + name))
		check(t, err)
		if len(found) != 1 {
			t.Fatalf("%s: %v", name, found)
		}
		if data, err := os.ReadFile(found[0]); string(data) != want {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
	if got := h.workFile("refused"); got != "deliverable.txt is the name of the deliverable: rename the file\npipe refused" {
		t.Errorf("refused: %q", got)
	}
	if reply := h.sentOf("reply")[0]; !strings.HasPrefix(reply.text, "see the files") {
		t.Errorf("reply: %q", reply.text)
	}
}
