package cycle_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// If the disk is full at any step of a poll, no mail is marked \Seen and no message is
// acknowledged on the mesh unless it is in the state. The next poll takes everything
// (docs/design.md, "Save before effects").
func TestFullDiskAtAnyStepConsumesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("polls some hundred times")
	}
	t.Parallel() // it mostly waits for the disk
	for n := 1; ; n += stepSize() {
		h := newFullFixture(t, mesh.KindNotice)
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
		told, _ := os.ReadFile(h.agent.Store.Path("log"))                       // a poll without an error has none
		unkept := strings.Contains(string(told), " cannot be saved in sent/: ") // an answer to that mail is read with its history
		if err == nil && len(report.Failed) == 0 && !delayed && !unkept {
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
func (h *fixture) failDiskAt(n int) (where *string) {
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
func (h *fixture) wantMeshMessageKept(s state.State, n int, failed string) {
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
