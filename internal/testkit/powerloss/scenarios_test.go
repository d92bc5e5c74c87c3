package powerloss

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
)

// scenarios are all stories.
var scenarios = []scenario{
	{name: "mail", shards: 2, set: setMail, tell: tellMail, hold: holdMail},
	{name: "empty", set: setEmpty, tell: tellEmpty, hold: holdEmpty},
	{name: "serve", tell: tellServe, hold: holdServe},
	{name: "hand", set: setHand, tell: tellHand, hold: holdHand},
	{name: "mesh", set: setMesh, tell: tellMesh, hold: holdMesh},
	{name: "init", tell: tellInit, hold: holdInit},
	{name: "login", set: setLogin, tell: tellLogin, hold: holdLogin},
	{name: "recover", set: setRecover, tell: tellRecover, hold: holdRecover},
	{name: "listen", set: setListen, tell: tellListen, hold: holdListen},
	{name: "api", set: setAPI, tell: tellAPI, hold: holdAPI},
}

// userLine is the line of the crontab that belongs to the user.
const userLine = "0 5 * * 1 tar -zcf /var/backups/home.tgz /home/\n"

func setMail(s *story) {
	command, _, err := crontest.Write(s.root)
	if err != nil {
		s.Fatal(err)
	}
	if err := testkit.WriteProgram(s.path("crontab.table"), userLine); err != nil {
		s.Fatal(err)
	}
	s.configure(s.mailbox(), scriptPart, "[schedule]\ncrontab = \""+command+"\"\n")
}

// tellMail: an operator writes, and so does a machine.
func tellMail(s *story) {
	s.run("poll")
	s.world.deliver(s.T, "Auto-Submitted: auto-replied\r\n"+letter(operator, "I am away"))
	s.world.deliver(s.T, letter(operator, "remember alpha"))
	s.run("poll")
	s.world.deliver(s.T, letter(operator, "file beta"))
	s.run("poll")
	s.noted()
}

func holdMail(c *crash) {
	// Whatever became of the table, the user's lines are somewhere.
	if !strings.Contains(c.read("crontab.table")+c.contents(stateDir+"/crontab-backups/*"), userLine) {
		c.Errorf("the user's crontab is lost")
	}
	c.poll()
	c.collect()
	c.wantSound()
	c.wantAnswered()
	if slices.ContainsFunc(c.had(mailed), func(raw string) bool { return strings.Contains(raw, "I am away") }) {
		kept := c.files(stateDir + "/quarantine/*/message.eml")
		if len(kept) != 1 || !strings.Contains(c.read(kept[0]), "I am away") {
			c.Errorf("the automatic mail is not in quarantine: %q", kept)
		}
	}
	if memory := c.read(stateDir + "/memory.md"); slices.ContainsFunc(c.had(mailed), func(raw string) bool { return strings.Contains(raw, "alpha") }) && memory != "remember alpha\n" {
		c.Errorf("it remembers %q", memory)
	}
}

func setEmpty(s *story) { s.configure(s.mailbox(), scriptPart, uncronned) }

// tellEmpty: most polls find nothing. An operator writes between them.
func tellEmpty(s *story) {
	for _, word := range []string{"alpha", "beta"} {
		for range 4 {
			s.run("poll")
		}
		s.world.deliver(s.T, letter(operator, "remember "+word))
	}
	s.run("poll")
	for range 3 {
		s.run("poll")
	}
	s.noted()
}

// holdEmpty: whichever of the empty polls are lost, the state was whole.
func holdEmpty(c *crash) {
	c.poll()
	c.poll()
	c.collect()
	c.wantSound()
	c.wantAnswered()
	for _, name := range c.files(stateDir + "/state.json.corrupt-*") {
		c.Errorf("the state was not whole: %s", name)
	}
	if history := c.contents(stateDir + "/history-*.jsonl"); strings.Contains(history, `"kind":"recovery"`) {
		c.Errorf("the state had to be rebuilt:\n%s", history)
	}
}

// setRecover leaves an agent whose state files are unusable, and whose history ends in
// the midst of a commit.
func setRecover(s *story) {
	s.configure(scriptPart, uncronned)
	line := s.args("tell", "remember one")
	if out, err := s.command(line...).CombinedOutput(); err != nil {
		s.Fatalf("tell: %v: %s", err, out)
	}
	s.settle()
	os.Remove(s.notes())
	for _, name := range []string{"state.json", "state.json.prev"} {
		if err := os.WriteFile(s.path(filepath.Join(stateDir, name)), []byte("{torn"), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	histories, err := filepath.Glob(s.path(filepath.Join(stateDir, "history-*.jsonl")))
	if err != nil || len(histories) != 1 {
		s.Fatal(histories, err)
	}
	data, err := os.ReadFile(histories[0])
	if err != nil {
		s.Fatal(err)
	}
	end := bytes.LastIndexByte(bytes.TrimSpace(data), '\n') + 1
	if err := os.WriteFile(histories[0], data[:end], 0o600); err != nil {
		s.Fatal(err)
	}
}

// tellRecover: the agent rebuilds its state, and goes on.
func tellRecover(s *story) {
	s.run("poll")
	s.run("tell", "file two")
	s.noted()
}

// wantChain checks that doctor finds no fault in the history.
func (c *crash) wantChain() {
	c.Helper()
	out, _ := c.attempt("doctor", "--no-network")
	if fault := historyFault.FindString(out); fault != "" {
		c.Errorf("doctor finds %q", fault)
	}
}

var historyFault = regexp.MustCompile(`(?m)^(?:error|warn) +history.*$`)

func holdRecover(c *crash) {
	c.poll()
	c.collect()
	c.wantChain()
	if c.hadEnded("tell file two") && !strings.Contains(c.deliverables(), "you said: file two") {
		c.Errorf("what was told after the recovery is lost")
	}
	if memory := c.read(stateDir + "/memory.md"); memory != "remember one\n" {
		c.Errorf("it remembers %q", memory)
	}
}
