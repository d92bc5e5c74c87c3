package commands

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
)

// TestKilledPolls delivers ten messages and kills the poll, the agent that it runs, or
// both, at ten random moments, or fifty if the real servers are required. Each message
// has one task line and one answer, mailed at least once and always as the same bytes
// (docs/design.md, "Promises" 1 and 2).
func TestKilledPolls(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))

	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	a := newInstalledAgent(t, servers, "[turn]\ncommand = [\"./slow.sh\"]\n"+noSchedule)
	writeScript(t, filepath.Join(a.dir, "slow.sh"), slowScript)
	a.poll(t) // the baseline
	const messages = 10
	kills := part(50, 10)
	sent := 0
	for killed := 0; killed < kills; {
		if sent < messages && killed >= sent*kills/messages {
			deliverMail(t, servers, fmt.Sprint("m", sent))
			sent++
		}
		cmd := a.command(t.Context(), "poll", "--quiet")
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
			killAgents(t, a.dir)
		case 2:
			cmd.Process.Kill()
			killAgents(t, a.dir)
		}
		killed++
		<-done
	}

	st := a.store()
	for range 100 {
		if out, code, _ := a.run(t.Context(), "poll", "--quiet"); code < 0 {
			t.Fatalf("poll: %d\n%s", code, out)
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
	if n := len(sentReplies(t, servers)); n != messages {
		t.Errorf("%d messages were answered, want %d", n, messages)
	}
}
