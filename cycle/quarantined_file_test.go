package cycle_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// asStranger lets the peer be another agent, which is not listed.
func (h *fixture) asStranger() {
	h.peer = &mesh.Client{URL: h.blueprint.Mesh, Handle: second, Token: fixedSecret(secondToken)}
}

// A stranger's message is kept in quarantine with its files, and has them in its turn after its
// release.
func TestReleasedMessageKeepsFiles(t *testing.T) {
	h := newAwakeFixture(t)
	h.playScript(`cat "$AGENTSTATELOOP_CONTEXT"/attachments/a.txt; grep -c MISSING prompt; true`)
	h.asStranger()
	h.post(mesh.Message{ID: "q1", Text: "first", Files: []mesh.File{h.upload("a.txt", "hello")}})
	h.poll()
	h.wantTasks()
	item := h.quarantinedItem()
	files := h.agent.FilesOfQuarantined(item).Files
	if len(files) != 1 || files[0].Name != "a.txt" || files[0].Missing != "" || item.Size < 5 {
		t.Fatalf("%+v: %+v", item, files)
	}
	if data, err := os.ReadFile(*files[0].Path); string(data) != "hello" {
		t.Errorf("it holds %q, %v", data, err)
	}
	if n, damaged, err := h.agent.CheckFiles(); n < 2 || len(damaged) > 0 || err != nil {
		t.Errorf("doctor: %d %v %v", n, damaged, err)
	}
	h.release(item.Key)
	h.poll()
	h.wantTasks(state.Success)
	if got := h.reports(); len(got) != 1 || got[0].Text != "hello0" {
		t.Errorf("reports: %+v", got)
	}
	h.wantEmpty("quarantine")
}

// A message is released even if a file was damaged or not kept for lack of room, and its prompt
// says so.
func TestReleasedMessageWithoutFile(t *testing.T) {
	t.Parallel()
	t.Run("damaged", func(t *testing.T) {
		h := newAwakeFixture(t)
		h.playScript("grep MISSING prompt")
		h.asStranger()
		h.post(mesh.Message{ID: "q1", Text: "first", Files: []mesh.File{h.upload("a.txt", "hello")}})
		h.poll()
		item := h.quarantinedItem()
		check(t, os.WriteFile(*h.agent.FilesOfQuarantined(item).Files[0].Path, []byte("HELLO"), 0o600))
		if _, damaged, err := h.agent.CheckFiles(); len(damaged) != 1 || err != nil {
			t.Errorf("doctor: %v %v", damaged, err)
		}
		h.release(item.Key)
		h.poll()
		h.wantTasks(state.Success)
		if got := h.reports(); len(got) != 1 || !strings.Contains(got[0].Text, `MISSING: "a.txt" (text/plain, 5 bytes): it was damaged while its message was in quarantine`) {
			t.Errorf("reports: %+v", got)
		}
	})
	t.Run("no room", func(t *testing.T) {
		h := newAwakeFixture(t)
		h.asStranger()
		large := strings.Repeat("x", mesh.MaxFile)
		h.post(mesh.Message{ID: "q1", Text: "first", Files: []mesh.File{h.upload("1.bin", "1"+large[1:]), h.upload("2.bin", "2"+large[1:])}})
		h.post(mesh.Message{ID: "q2", Text: "second", Files: []mesh.File{h.upload("3.bin", "3"+large[1:])}})
		h.post(mesh.Message{ID: "q3", Text: "third", Files: []mesh.File{h.upload("4.bin", "4"+large[1:]), h.upload("5.bin", "5"+large[1:])}})
		h.poll()
		h.wantCounted(3)
		items, err := h.agent.View().Quarantined()
		check(t, err)
		for _, item := range items {
			files := h.agent.FilesOfQuarantined(item).Files
			third := strings.HasSuffix(item.Key, ":q3")
			if kept := files[0].Missing == ""; kept == third {
				t.Errorf("%s: %+v", item.Key, files)
			}
		}
		names, err := filepath.Glob(h.agent.Store.Path("quarantine/*/file-*"))
		if err != nil || len(names) != 3 {
			t.Errorf("kept %q, %v", names, err)
		}
		h.wantAcknowledged()
	})
}
