package powerloss

import (
	"path/filepath"
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
	lines := c.read("crontab.table")
	for _, name := range c.files(filepath.Join(stateDir, "crontab-backups", "*")) {
		lines += c.read(strings.TrimPrefix(name, c.root+"/"))
	}
	if !strings.Contains(lines, userLine) {
		c.Errorf("the user's crontab is lost")
	}
	c.poll()
	c.collect()
	c.wantSound()
	c.wantAnswered()
	if slices.ContainsFunc(c.had(mailed), func(raw string) bool { return strings.Contains(raw, "I am away") }) {
		kept := c.files(filepath.Join(stateDir, "quarantine", "*", "message.eml"))
		if len(kept) != 1 || !strings.Contains(c.read(strings.TrimPrefix(kept[0], c.root+"/")), "I am away") {
			c.Errorf("the automatic mail is not in quarantine: %q", kept)
		}
	}
	if memory := c.read(stateDir + "/memory.md"); slices.ContainsFunc(c.had(mailed), func(raw string) bool { return strings.Contains(raw, "alpha") }) && memory != "remember alpha\n" {
		c.Errorf("it remembers %q", memory)
	}
}
