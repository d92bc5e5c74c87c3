package powerloss

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentstateloop/mesh"
)

// line is what an outsider reads of a line of the history.
type line struct {
	Kind   string `json:"kind"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// history returns the lines of one kind.
func (c *crash) history(kind string) (found []line) {
	dec := json.NewDecoder(strings.NewReader(c.run("history", "--json", "-n", "0")))
	for dec.More() {
		var l line
		if err := dec.Decode(&l); err != nil {
			c.Errorf("history: %v", err)
			return found
		}
		if l.Kind == kind {
			found = append(found, l)
		}
	}
	return found
}

// deliverables returns the text of all output boxes.
func (c *crash) deliverables() string {
	return c.contents(stateDir + "/turns/*/*/output/deliverable.txt")
}

func setHand(s *story) { s.configure(scriptPart, uncronned) }

// tellHand: a person uses the command line.
func tellHand(s *story) {
	s.run("tell", "remember one")
	s.run("nudge", "--no-poll", "--reason", "the build is green")
	s.run("tell", "file two")
	s.run("reset")
	s.run("halt")
	s.noted()
}

func holdHand(c *crash) {
	if c.hadEnded("halt") {
		if !strings.Contains(c.run("status", "--json"), `"halted": true`) {
			c.Errorf("HALT is forgotten")
		}
		c.run("resume")
	}
	c.poll()
	c.wantSound()
	c.wantChain()
	for _, e := range c.collect() {
		if c.hadEnded("tell " + e.text) {
			c.Errorf("%q ran again after its answer was shown", e.text)
		}
	}
	boxes := c.deliverables()
	for _, text := range []string{"remember one", "file two"} {
		if c.hadEnded("tell "+text) && !strings.Contains(boxes, "you said: "+text) {
			c.Errorf("the answer to %q is lost; there are %q", text, boxes)
		}
	}
	rung := c.history("nudge")
	if c.hadEnded("nudge") && !slices.ContainsFunc(rung, func(l line) bool { return l.Reason == "the build is green" }) {
		c.Errorf("the nudge is lost: %v", rung)
	}
	memory, prev := c.read(stateDir+"/memory.md"), c.read(stateDir+"/memory.md.prev")
	switch one := "remember one\n"; {
	case len(c.history("reset")) > 0 && (memory != "" || prev != one):
		c.Errorf("after a reset it remembers %q, before that %q", memory, prev)
	case c.hadEnded("tell remember one") && memory != one && prev != one:
		c.Errorf("it remembers %q, before that %q", memory, prev)
	case memory != "" && memory != one:
		c.Errorf("it remembers %q", memory)
	}
}

// withFile is a message with a file, which the agent hands back.
const withFile = "back with it"

func setMesh(s *story) {
	s.configure("[trust]\nmesh = \"open\"\n", fmt.Sprintf(meshPart, s.world.url), scriptPart, uncronned)
}

// tellMesh: another agent writes, with a file and without, and is answered.
func tellMesh(s *story) {
	s.run("poll")
	for _, text := range []string{"remember me", withFile} {
		from := peer(s.world.url, "dorlange3120")
		m := mesh.Message{ID: "id-" + text[:3], To: "goulard3120", Text: text}
		if text == withFile {
			m.Files = []mesh.File{s.upload(from, text)}
		}
		if _, err := from.Send(context.Background(), m); err != nil {
			s.Fatal(err)
		}
		s.world.note(event{kind: told, text: text})
		s.run("poll")
	}
	s.noted()
}

func holdMesh(c *crash) {
	c.poll()
	c.collect()
	c.wantSound()
	box, err := peer(c.world.url, "dorlange3120").Mailbox(context.Background(), 0)
	if err != nil {
		c.Errorf("%v", err)
		return
	}
	ids := map[string]string{} // of a report, by its text
	for _, m := range box.Messages {
		if m.Text == "you said: "+withFile {
			if len(m.Files) != 1 || c.download(peer(c.world.url, "dorlange3120"), m.Files[0]) != contentOf(withFile) {
				c.Errorf("with %q came back %+v", m.Text, m.Files)
			}
		}
		if was, ok := ids[m.Text]; ok && was != m.ID {
			c.Errorf("%q was reported as %s and %s", m.Text, was, m.ID)
		}
		ids[m.Text] = m.ID
	}
	for _, text := range c.had(told) {
		if _, ok := ids["you said: "+text]; !ok {
			c.Errorf("%q has no report: %v", text, ids)
		}
	}
}
