package cycle_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// A disk that cannot be written at any one step of a poll consumes nothing: no
// \Seen, and no acknowledgement on the mesh that is not in the state. The next
// poll takes everything (docs/design.md, "Save before effects").
func TestADiskThatFailsAtAnyStepConsumesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("polls some hundred times")
	}
	t.Parallel() // it mostly waits for the disk
	for n := 1; ; n++ {
		h := fullHouse(t, mesh.KindNotice)
		failedAt := h.failDiskAt(n)
		report, err := h.agent.Poll(t.Context(), cycle.PollOptions{})
		failed := *failedAt
		if failed == "" {
			if n < 50 {
				t.Fatalf("a poll touches the disk %d times only", n)
			}
			return
		}
		s := h.state()
		delayed := slices.ContainsFunc(s.Outbox, func(e state.Effect) bool { return e.Attempts > 0 })
		if err == nil && len(report.Failed) == 0 && !delayed {
			t.Errorf("step %d (%s): the poll told nothing: %+v", n, failed, report)
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("step %d (%s): %v", n, failed, err)
		}
		if len(h.unread()) == 0 && s.Arrivals < 1 {
			t.Errorf("step %d (%s): marked as read and not taken", n, failed)
		}
		h.wantMeshMessageKept(s, n, failed)

		h.agent.Store.Hook = nil
		h.wantMended(fmt.Sprintf("step %d (%s)", n, failed))
	}
}

// failDiskAt makes the disk full at the nth fsync, rename or fsync of a
// directory, and only then. The string it returns says where that was; it stays
// "" if there were fewer steps. (A failed write is the same as a failed fsync.)
func (h *house) failDiskAt(n int) (where *string) {
	where = new(string)
	var mu sync.Mutex // payloads of mail and mesh are written at the same time
	step := 0
	h.agent.Store.Hook = func(what, path string) error {
		mu.Lock()
		defer mu.Unlock()
		if what != "fsync" && what != "rename" && what != "fsyncdir" {
			return nil
		}
		if step++; step != n {
			return nil
		}
		*where = what + " " + strings.TrimPrefix(path, h.agent.Store.Dir)
		return &fs.PathError{Op: what, Path: path, Err: syscall.ENOSPC}
	}
	return where
}

// wantMeshMessageKept fails if the mesh was told that we have a message that we
// do not have.
func (h *house) wantMeshMessageKept(s state.State, n int, failed string) {
	h.t.Helper()
	for _, m := range h.waiting() {
		if m.ID == "q1" {
			return
		}
	}
	if _, known := s.Seen["mesh:"+peer+":q1"]; !known {
		h.t.Errorf("step %d (%s): acknowledged and not taken", n, failed)
	}
}

// A dry run reads, and changes nothing anywhere.
func TestADryRunChangesNothing(t *testing.T) {
	h := newAwakeHouse(t)
	check(t, os.WriteFile(h.table, []byte(foreign), 0o600))
	h.receive(letter{id: "<one@example.com>", subject: "@goulard3120 first"})
	h.receive(letter{id: "<two@example.com>", fields: "List-Id: <x.example.com>\r\n"})
	h.post(meshMessage("q1"))
	check(t, h.agent.Ring("test", "why not"))
	before := h.everything()

	p, err := h.agent.Preview(t.Context())
	check(t, err)
	if after := h.everything(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if p.Before != state.IDLE || p.After != state.PREP || len(p.Arrived) != 2 || len(p.Rejected) != 1 {
		t.Errorf("preview: %+v", p)
	}
	if len(p.Mails) != 1 || !strings.Contains(p.Mails[0].Text, "standing by") {
		t.Errorf("mails: %+v", p.Mails)
	}
	if !strings.Contains(p.CrontabDiff, "+*/1 * * * *") {
		t.Errorf("crontab:\n%s", p.CrontabDiff)
	}
	if len(p.Transitions) != 1 {
		t.Errorf("transitions: %q", p.Transitions)
	}
}

// A dry run of an agent that has never polled makes no folder either.
func TestADryRunOfANewAgentLeavesNoTrace(t *testing.T) {
	h := newHouse(t)
	h.receive(letter{id: "<one@example.com>"})
	before := h.everything()
	p, err := h.agent.Preview(t.Context())
	check(t, err)
	if after := h.everything(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if len(p.Arrived) != 1 {
		t.Errorf("preview: %+v", p)
	}
}

// everything returns all that a poll could change, as text.
func (h *house) everything() string {
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
