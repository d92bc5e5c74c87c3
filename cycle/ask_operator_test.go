package cycle_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// askingOperatorScript is an agent that asks its operator, and says what it was answered.
const askingOperatorScript = `
if [ ! -e asked ]; then
	: >asked
	us ask-operator 'May I delete the *old* backups?' 6h yes no >>ids
	exit
fi
cp "$AGENTSTATELOOP_CONTEXT/answers.json" .
echo "told: $(grep -A1 '^<report ' prompt | grep -v '<report ' | tr '\n' ' ')"
`

// answers returns what the resumed attempt read in its context box.
func (h *fixture) operatorAnswers() (got []cycle.OperatorAnswer) {
	h.t.Helper()
	data, err := os.ReadFile(h.blueprint.Dir + "/answers.json")
	check(h.t, err)
	check(h.t, json.Unmarshal(data, &got))
	return got
}

// TestOperatorQuestion asks by a mail in the thread, whose reply resumes the same turn
// and not a message.
func TestOperatorQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reply, option, told string }{
		"an option":      {"Yes.", "yes", "They chose: yes"},
		"its number":     {"2", "no", "They chose: no"},
		"below a banner": {"[EXTERNAL]\n\nyes", "yes", "They chose: yes"},
		"something else": {"only those of May", "", "only those of May"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.playScript(askingOperatorScript)
			h.receive(letter{id: "<one@example.com>", body: "make room"})
			h.poll()
			asked := h.sentOf("question")
			if len(asked) != 1 || asked[0].to != operator || asked[0].head.InReplyTo != "<one@example.com>" || asked[0].head.Subject != "Re: @"+handle+" hello" {
				t.Fatalf("asked: %+v", asked)
			}
			wantWords(t, asked[0].raw, "1. yes\r\n2. no\r\n", "I will wait until ")
			h.wantTasks()
			if r := h.pollAfter(time.Hour); r.Turns != 0 {
				t.Errorf("before the answer: %+v", r)
			}
			h.receive(replyTo(asked[0], c.reply))
			if r := h.pollAfter(time.Minute); r.Turns != 1 || r.Arrived != 0 {
				t.Errorf("the answer: %+v", r)
			}
			h.wantTasks(state.Success)
			if !strings.Contains(h.prompt(), c.told) || !strings.Contains(h.prompt(), "You asked your operator ("+h.workFile("ids")+"): May I delete") {
				t.Errorf("the prompt:\n%s", h.prompt())
			}
			got := h.operatorAnswers()
			if len(got) != 1 || got[0].ID != h.workFile("ids") || got[0].Outcome != cycle.OperatorAnswered || got[0].Option != c.option || got[0].Answer != c.reply {
				t.Errorf("answers: %+v", got)
			}
			// The same mail in another thread of theirs is a message.
			h.receive(replyTo(asked[0], "and now?"))
			if r := h.pollAfter(time.Minute); r.Turns != 1 || r.Arrived != 1 {
				t.Errorf("a later reply: %+v", r)
			}
		})
	}
}

// TestForgedAnswerIsIgnored sends unproven answers, a forwarded question, and answers with
// another id. All are ignored.
func TestForgedAnswerIsIgnored(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(askingOperatorScript)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	asked := h.sentOf("question")[0]
	forged := replyTo(asked, "yes")
	forged.from = "mallory@example.com"
	h.receive(forged)
	id := asked.head.MessageID
	other := replyTo(asked, "yes")
	other.fields = strings.ReplaceAll(other.fields, id, strings.Replace(id, "<question.", "<question.0", 1))
	h.receive(other)
	mac := replyTo(asked, "yes")
	at := strings.LastIndex(id, "."+handle) - 20 // of the part that proves the mail
	mac.fields = strings.ReplaceAll(mac.fields, id, id[:at]+string('a'+(id[at]-'a'+1)%2)+id[at+1:])
	h.receive(mac)
	forwarded := replyTo(asked, "yes")
	forwarded.subject = "Fwd: @" + handle + " hello"
	h.receive(forwarded)
	h.pollAfter(time.Minute)
	h.wantTasks()
	if w, _ := h.state().BehindQuestion(); w.Answered() || w.ID == "" {
		t.Errorf("the question: %+v", w)
	}
}

// TestAnswerIsProvenByQuestionID answers where only a challenge proves a mail: the id of an open
// question proves the answer too.
func TestAnswerIsProvenByQuestionID(t *testing.T) {
	h := newAskingFixture(t)
	h.playScript(askingOperatorScript)
	h.queue("make room")
	h.poll()
	asked := h.sentOf("question")
	if len(asked) != 1 || asked[0].head.InReplyTo != "" || !strings.HasPrefix(asked[0].head.Subject, "@"+handle+" asks: May I") {
		t.Fatalf("asked: %+v", asked)
	}
	h.receive(replyTo(asked[0], "yes"))
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success)
	if got := h.operatorAnswers(); len(got) != 1 || got[0].Option != "yes" {
		t.Errorf("answers: %+v", got)
	}
	h.receive(replyTo(asked[0], "and this"))
	if r := h.pollAfter(time.Minute); r.Rejected != 1 || r.Turns != 0 {
		t.Errorf("after the question was closed: %+v", r)
	}
}

// TestOperatorQuestionInDovecot is the first story with a real mail server.
func TestOperatorQuestionInDovecot(t *testing.T) {
	t.Parallel()
	h, d := newDovecotFixture(t)
	h.playScript(askingOperatorScript)
	h.poll()
	check(t, d.Append(letter{id: "<one@example.com>"}.raw(), false))
	h.poll()
	check(t, d.Append(replyTo(h.sentOf("question")[0], "no").raw(), false))
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success)
	if got := h.operatorAnswers(); len(got) != 1 || got[0].Option != "no" {
		t.Errorf("answers: %+v", got)
	}
}
