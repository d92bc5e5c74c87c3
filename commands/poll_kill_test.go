package commands

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/message"
	"agentstateloop/state/store"
)

// TestKilledPolls delivers ten messages and kills the poll, the agent it runs, or
// both, at twenty random moments, or fifty if all that is real is required. Each message
// has one task line and one answer, mailed at least once and always as the same bytes
// (docs/design.md, "Promises" 1 and 2).
func TestKilledPolls(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))

	dir := tempDir(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	program := buildProgram(t, dir)
	writeAgent(t, dir, servers, "[turn]\ncommand = [\"./slow.sh\"]\n[schedule]\nmode = \"none\"\n")
	if err := testkit.WriteProgram(filepath.Join(dir, "slow.sh"), slowScript); err != nil {
		t.Fatal(err)
	}
	poll := func() *exec.Cmd {
		return exec.Command(program, "--config", filepath.Join(dir, "agent.toml"), "poll", "--quiet")
	}

	if out, err := poll().CombinedOutput(); err != nil { // the baseline
		t.Fatalf("first poll: %v\n%s", err, out)
	}
	const messages = 10
	kills := part(50, 10)
	sent := 0
	for killed := 0; killed < kills; {
		if sent < messages && killed >= sent*kills/messages {
			raw := fmt.Sprintf("From: operator@example.com\r\nSubject: @goulard3120 work\r\nMessage-ID: <m%d@example.com>\r\n\r\ndo it\r\n", sent)
			if _, err := servers.Append([]byte(raw), time.Now()); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		cmd := poll()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { cmd.Wait(); close(done) }()
		select {
		case <-done: // it ended before the kill
			continue
		case <-time.After(time.Duration(chance.IntN(200)) * time.Millisecond):
		}
		switch chance.IntN(3) {
		case 0:
			cmd.Process.Kill()
		case 1:
			killAgents(t, dir)
		case 2:
			cmd.Process.Kill()
			killAgents(t, dir)
		}
		killed++
		<-done
	}

	st := &store.Store{Dir: filepath.Join(dir, "state"), Agent: "goulard3120"}
	for range 100 {
		out, err := poll().CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatalf("poll: %v\n%s", err, out)
		}
		s, err := st.Read()
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Inbox) == 0 && len(s.Outbox) == 0 && len(countTaskLines(t, st)) == sent {
			break
		}
	}
	if n := len(countTaskLines(t, st)); n != messages {
		t.Errorf("%d messages have a task line, want %d", n, messages)
	}
	for key, n := range countTaskLines(t, st) {
		if n != 1 {
			t.Errorf("%s has %d task lines, want 1", key, n)
		}
	}
	answers := map[string][]byte{} // by the Message-ID they answer
	for _, m := range servers.Sent() {
		h := message.ParseHeader(m.Raw)
		if !bytes.HasPrefix([]byte(h.MessageID), []byte("<reply.")) {
			continue
		}
		if before, ok := answers[h.InReplyTo]; ok && !bytes.Equal(before, m.Raw) {
			t.Errorf("two different answers to %s:\n%s\n---\n%s", h.InReplyTo, before, m.Raw)
		}
		answers[h.InReplyTo] = m.Raw
	}
	if len(answers) != messages {
		t.Errorf("%d messages were answered, want %d", len(answers), messages)
	}
}
