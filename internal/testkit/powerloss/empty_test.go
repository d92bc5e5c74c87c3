package powerloss

import (
	"path/filepath"
	"strings"
)

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
	for _, name := range c.files(filepath.Join(stateDir, "state.json.corrupt-*")) {
		c.Errorf("the state was not whole: %s", name)
	}
	for _, name := range c.files(filepath.Join(stateDir, "history-*.jsonl")) {
		if history := c.read(strings.TrimPrefix(name, c.root+"/")); strings.Contains(history, `"kind":"recovery"`) {
			c.Errorf("the state had to be rebuilt:\n%s", history)
		}
	}
}
