package commands

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"agentstateloop/mail/mailtest"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// slowScript answers differently at every attempt, so that two deliverables of
// one message could be told apart.
const slowScript = `#!/bin/sh
cat >/dev/null
sleep 0.0$(($$ % 9))
echo "attempt of process $$"
`

// Ten messages, and SIGKILL at fifty random moments: of the poll, of the agent
// it runs, or of both. No message is lost, each has one task line and one
// deliverable, which is mailed at least once and always as the same bytes
// (DESIGN 13, promises 1 and 2).
func TestFiftyKills(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))

	dir := t.TempDir()
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	program := build(t, dir)
	layAgent(t, dir, servers, "[turn]\ncommand = [\"./slow.sh\"]\n[schedule]\nmode = \"none\"\n")
	if err := os.WriteFile(filepath.Join(dir, "slow.sh"), []byte(slowScript), 0o700); err != nil {
		t.Fatal(err)
	}
	poll := func() *exec.Cmd {
		return exec.Command(program, "--config", filepath.Join(dir, "agent.toml"), "poll", "--quiet")
	}

	if out, err := poll().CombinedOutput(); err != nil { // the baseline
		t.Fatalf("first poll: %v\n%s", err, out)
	}
	const messages, kills = 10, 50
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
		case <-done: // it was through before we struck
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
		if len(s.Inbox) == 0 && len(s.Outbox) == 0 && len(tasks(t, st)) == sent {
			break
		}
	}
	if n := len(tasks(t, st)); n != messages {
		t.Errorf("%d messages have a task line, want %d", n, messages)
	}
	for key, n := range tasks(t, st) {
		if n != 1 {
			t.Errorf("%s has %d task lines", key, n)
		}
	}
	answers := map[string][]byte{} // by the message answered
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

// tasks counts the task lines of each message.
func tasks(t *testing.T, st *store.Store) map[string]int {
	t.Helper()
	count := map[string]int{}
	for l, err := range st.History() {
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind == state.LineTask {
			count[l.Key]++
		}
	}
	return count
}

// killAgents kills the process group of whatever agent runs below dir.
func killAgents(t *testing.T, dir string) {
	t.Helper()
	alive, err := filepath.Glob(filepath.Join(dir, "state", "turns", "*", "*", "alive"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range alive {
		held, p, err := turn.Probe(filepath.Dir(file))
		if err == nil && held && p.PID > 1 {
			syscall.Kill(-p.PID, syscall.SIGKILL)
		}
	}
}

// build makes the program itself, for tests that kill it or let cron start it.
func build(t testing.TB, dir string) string {
	t.Helper()
	program := filepath.Join(dir, name)
	if out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// layAgent writes a configuration with mail, and its secret, into dir.
func layAgent(t testing.TB, dir string, servers *mailtest.Servers, more string) {
	t.Helper()
	config := "[agent]\nhandle = \"goulard3120\"\noperator = [\"operator@example.com\"]\nstate_dir = \"state\"\n" +
		fmt.Sprintf("[mail]\naddress = \"goulard@example.org\"\n[mail.imap]\nhost = %q\npassword_file = \"secret\"\nca_file = %q\n[mail.smtp]\nhost = %q\nca_file = %[2]q\n",
			servers.IMAPTLS, servers.CAFile, servers.SMTPTLS) +
		"[trust]\nrequire = \"from\"\n" + more
	for file, text := range map[string]string{"agent.toml": config, "secret": servers.Password} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
