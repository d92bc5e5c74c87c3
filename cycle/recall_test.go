package cycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// newRecallFixture returns a fixture whose agent has had these conversations, one a day,
// all answered by "ok".
func newRecallFixture(t *testing.T, said ...string) (h *fixture, stdin *string) {
	t.Helper()
	h = newAwakeFixture(t)
	stdin, _ = h.recordPrompts()
	for _, text := range said {
		h.say(text, 24*time.Hour)
	}
	return h, stdin
}

// say sends the agent a message after a while, and has it answered.
func (h *fixture) say(text string, after time.Duration) {
	h.t.Helper()
	h.clock.advance(after)
	h.queue(text)
	if n, err := h.agent.Turns(h.t.Context()); err != nil || n != 1 {
		h.t.Fatalf("%d turns, %v", n, err)
	}
}

// smallTalk returns n conversations about nothing much.
func smallTalk(n int) []string {
	var said []string
	for i := range n {
		said = append(said, fmt.Sprintf("day %d: rain again, and the same old story about it%s", i, strings.Repeat(", and on and on", 10)))
	}
	return said
}

// The prompt of a new session holds the newest exchanges, and those related to
// the message, in their order and within its room.
func TestRecallIsRelevant(t *testing.T) {
	t.Parallel()
	said := append([]string{"by the way, the key of Zanzibar lies in vault 7" + strings.Repeat(", and on and on", 15)}, smallTalk(20)...)
	h, stdin := newRecallFixture(t, said...)
	h.agent.Recall = 3 << 10 // an exchange here takes 390 bytes
	h.say("where is ZANZIBAR's key?", time.Hour)
	wantWords(t, *stdin, "vault 7", " left out)", "day 19", "day 18", "day 17")
	if strings.Index(*stdin, "vault 7") > strings.Index(*stdin, "day 17") {
		t.Errorf("not in its order:\n%s", *stdin)
	}
	wantNoWords(t, *stdin, "day 3:")
	history := (*stdin)[strings.Index(*stdin, "<history "):strings.Index(*stdin, "</history ")]
	if len(history) > 3<<10+200 || len(history) < 2<<10 {
		t.Errorf("%d bytes of history for a room of %d", len(history), h.agent.Recall)
	}
	h.agent.Recall = 2 << 10 // the answer to the last question is new, and is not found by chance
	h.say("rain again?", 24*time.Hour)
	h.say("go on with the same story", 24*time.Hour)
	wantWords(t, *stdin, "day 19", "rain again?")
	wantNoWords(t, *stdin, "lies in vault 7")
}

// However little room there is, the prompt holds the newest exchange,
// truncated.
func TestRecallWithLittleRoom(t *testing.T) {
	h, stdin := newRecallFixture(t, "an old one", strings.Repeat("long ", 2000))
	h.agent.Recall = 1 << 10
	h.say("and?", time.Hour)
	wantWords(t, *stdin, "<history #>", "long long", "ok")
	if n := strings.Count(*stdin, "long"); n > 100 {
		t.Errorf("%d words of a long message in a room of 1 KiB", n)
	}
}

// The prompt of each message of a backlog has the earlier exchanges once.
func TestPromptCountsBacklog(t *testing.T) {
	h, stdin := newRecallFixture(t, "the first of all")
	for _, text := range []string{"one", "two", "three", "four"} {
		h.queue("message " + text)
		h.clock.advance(time.Minute)
	}
	if n, err := h.agent.Turns(t.Context()); err != nil || n != 4 {
		t.Fatalf("%d turns, %v", n, err)
	}
	at := -1
	for _, text := range []string{"the first of all", "message one", "message two", "message three", "message four"} {
		i := strings.Index(*stdin, text)
		if i < at || strings.Count(*stdin, text) != 1 {
			t.Errorf("%q is not told once in its place:\n%s", text, *stdin)
		}
		at = i
	}
}
