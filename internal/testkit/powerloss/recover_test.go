package powerloss

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

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
