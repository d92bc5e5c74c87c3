package cycle_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/state"
)

// A dry run changes nothing.
func TestDryRunChangesNothing(t *testing.T) {
	h := newAwakeFixture(t)
	check(t, os.WriteFile(h.table, []byte(foreignLines), 0o600))
	h.receive(letter{id: "<one@example.com>", subject: "@goulard3120 first"})
	h.receive(letter{id: "<two@example.com>", fields: "List-Id: <x.example.com>\r\n"})
	h.post(meshMessage("q1"))
	check(t, h.agent.Ring("test", "why not"))
	before := h.snapshot()

	p, err := h.agent.Preview(t.Context())
	check(t, err)
	if after := h.snapshot(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if p.Before != state.IDLE || p.After != state.PREP || len(p.Arrived) != 2 || len(p.Rejected) != 1 {
		t.Errorf("preview: %+v", p)
	}
	if len(p.Mails) != 1 || !strings.Contains(p.Mails[0].Text, "standing by") {
		t.Errorf("mails: %+v", p.Mails)
	}
	wantWords(t, p.CrontabDiff, "+*/1 * * * *")
	if len(p.Transitions) != 1 {
		t.Errorf("transitions: %q", p.Transitions)
	}
}

// A dry run of an agent that has never polled makes no folder either.
func TestDryRunOfNewAgentLeavesNoTrace(t *testing.T) {
	h := newFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	before := h.snapshot()
	p, err := h.agent.Preview(t.Context())
	check(t, err)
	if after := h.snapshot(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if len(p.Arrived) != 1 {
		t.Errorf("preview: %+v", p)
	}
}

// snapshot returns all that a poll could change, as text.
func (h *fixture) snapshot() string {
	h.t.Helper()
	var b strings.Builder
	check(h.t, filepath.WalkDir(h.blueprint.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			b.WriteString(path + "\n")
			return err
		}
		data, err := os.ReadFile(path)
		b.WriteString(path + ": " + string(data) + "\n")
		return err
	}))
	for _, uid := range h.unread() {
		b.WriteString(" unread " + string(rune('0'+uid)))
	}
	for _, m := range h.waiting() {
		b.WriteString(" on the mesh " + m.ID)
	}
	b.WriteString(" sent " + h.kinds())
	return b.String()
}
