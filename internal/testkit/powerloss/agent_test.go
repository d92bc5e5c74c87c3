package powerloss

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/internal/testkit"
	"agentstateloop/mail/message"
)

// stateDir is the state directory of the agents, on the disk.
const stateDir = "base/goulard3120"

// The parts of a configuration.
const (
	agentPart = `[agent]
handle = "goulard3120"
operator = ["operator@example.com"]
state_dir = "disk/base/goulard3120"
`
	mailPart = `[trust]
require = "from"
mesh = "open"
[mail]
address = "goulard@example.org"
[mail.imap]
host = %q
password_file = "secret"
ca_file = %q
[mail.smtp]
host = %q
ca_file = %[2]q
`
	meshPart = `[mesh]
url = %q
peers = ["dorlange3120"]
`
	scriptPart = `[turn]
command = ["./agent.sh"]
`
	uncronned = `[schedule]
mode = "none"
`
)

// agentScript notes that it runs, does what its message says, and answers. It is
// completed by the path of the program and that of its notes.
const agentScript = `#!/bin/sh
cat >/dev/null
text=$(cat "$AGENTSTATELOOP_CONTEXT/text.txt")
echo "$(date +%%s%%6N) $text" >>%[2]q
case "$text" in
remember*) %[1]q remember "$text" ;;
back*) %[1]q submit --file "$AGENTSTATELOOP_CONTEXT/attachments/in.txt" "you said: $text" ;;
file*) echo "$text" >"$AGENTSTATELOOP_OUTPUT/note.txt" ;;
esac
echo "you said: $text"
`

// configure writes the configuration, made of these parts, and the agent.
func (s *story) configure(parts ...string) {
	s.Helper()
	s.writeFile("agent.toml", agentPart+strings.Join(parts, ""))
	s.writeFile("secret", s.world.mail.Password+"\n")
	if err := testkit.WriteProgram(filepath.Join(s.dir, "agent.sh"), fmt.Sprintf(agentScript, s.program, s.notes())); err != nil {
		s.Fatal(err)
	}
}

// mailbox returns the part of the configuration about mail.
func (s *story) mailbox() string {
	return fmt.Sprintf(mailPart, s.world.mail.IMAPTLS, s.world.mail.CAFile, s.world.mail.SMTPTLS)
}

func (s *story) writeFile(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// notes returns the path of the file in which agents and tools note what they do. No
// power loss takes it back, because what they do happens outside of the machine.
func (s *story) notes() string { return filepath.Join(s.dir, "notes") }

// collect makes events of the notes, and removes them.
func (s *story) collect() (done []event) {
	data, _ := os.ReadFile(s.notes())
	for line := range strings.Lines(string(data)) {
		at, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		us, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			s.Fatalf("note %q", line)
		}
		done = append(done, event{at: us, kind: did, text: text})
	}
	os.Remove(s.notes())
	return done
}

// noted makes the notes of a recording part of what happened.
func (s *story) noted() {
	done := s.collect()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.events = append(s.world.events, done...)
	slices.SortStableFunc(s.world.events, func(a, b event) int { return int(a.at - b.at) })
}

// letter returns a mail. Its Message-ID names its text.
func letter(from, text string) string {
	return fmt.Sprintf("From: %s\r\nTo: goulard@example.org\r\nSubject: @goulard3120 work\r\nMessage-ID: <%s@example.com>\r\n\r\n%s\r\n",
		from, strings.ReplaceAll(text, " ", "-"), text)
}

// operator is who may write to the agents.
const operator = "operator@example.com"

// poll polls until nothing waits, and once more. Each poll must succeed.
func (c *crash) poll() {
	c.Helper()
	for range 8 {
		c.run("poll", "--quiet")
		if !c.waits() {
			break
		}
	}
	if c.waits() {
		c.Errorf("it does not come to rest: %s", c.run("status"))
	}
	c.run("poll", "--quiet")
}

var waiting = regexp.MustCompile(`"waiting": [1-9]|"undeliverable": [1-9]`)

// waits reports whether a message waits for its turn, or a mail for its server.
func (c *crash) waits() bool { return waiting.MatchString(c.run("status", "--json")) }

// wantSound checks what holds for every agent after every crash: no file was found
// damaged, the history is whole as far as any mail has told, and no secret is open.
func (c *crash) wantSound() {
	c.Helper()
	for _, pattern := range []string{"*.corrupt-*", "*.damaged-*"} {
		for _, name := range c.files(filepath.Join(stateDir, pattern)) {
			c.Errorf("%s had to be set aside", filepath.Base(name))
		}
	}
	for i, raw := range c.has(sent) {
		if !strings.Contains(raw, "X-AgentStateLoop-History:") {
			continue // the first mail of an agent
		}
		name := filepath.Join(c.dir, "sent.eml")
		if err := os.WriteFile(name, []byte(raw), 0o600); err != nil {
			c.Fatal(err)
		}
		if out, code := c.attempt("history", "--verify", name); code != 0 {
			c.Errorf("the history does not fit mail %d: %s\n%s", i, out, raw)
		}
	}
	key := filepath.Join(stateDir, "message-id.key")
	if was, ok := c.before[key]; ok && len(c.had(sent)) > 0 && was.content != c.read(key) {
		c.Errorf("the key of our Message-IDs is another one than that of the mail that had left")
	}
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		c.wantPrivate(filepath.Join(stateDir, pattern))
	}
}

// ours are the parts of a mail that the agent sent.
type ours struct{ id, to, body string }

func read(raw string) ours {
	h := message.ParseHeader([]byte(raw))
	return ours{h.MessageID, h.InReplyTo, message.ContentOf([]byte(raw), message.Sent{}).Full}
}

// wantAnswered checks that each of the operator's mails that had come is answered, in
// one version.
func (c *crash) wantAnswered() {
	c.Helper()
	versions := map[string]string{} // of a mail of ours, by its Message-ID
	answers := map[string][]ours{}  // replies, by the Message-ID that they answer
	copies := map[string]int{}      // of an ack or a quiet
	for _, raw := range c.has(sent) {
		m := read(raw)
		if was, ok := versions[m.id]; ok && was != raw {
			c.Errorf("%s was sent in two versions:\n%s\n---\n%s", m.id, was, raw)
		}
		if _, again := versions[m.id]; strings.HasPrefix(m.id, "<reply.") && !again {
			answers[m.to] = append(answers[m.to], m)
		}
		versions[m.id] = raw
		copies[m.id]++
	}
	for id, n := range copies {
		if n > 1 && !strings.HasPrefix(id, "<reply.") {
			c.Errorf("%s was sent %d times", id, n)
		}
	}
	for _, raw := range c.had(mailed) {
		m := read(raw)
		if strings.HasPrefix(raw, "Auto-Submitted") {
			continue
		}
		if got := answers[m.id]; len(got) != 1 || !strings.Contains(got[0].body, "you said: "+strings.TrimSpace(m.body)) {
			c.Errorf("%s has %d answers: %q", m.id, len(got), got)
		}
	}
}
