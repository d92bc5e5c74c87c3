package cycle_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// upload gives the mesh a file of the peer's, and returns it as a message names it.
func (h *fixture) upload(name, text string) mesh.File {
	h.t.Helper()
	sum := sha256.Sum256([]byte(text))
	f := mesh.File{SHA256: hex.EncodeToString(sum[:]), Name: name, Type: "text/plain", Size: int64(len(text))}
	check(h.t, h.peer.PutBlob(h.t.Context(), "", f.SHA256, f.Size, strings.NewReader(text)))
	return f
}

// download returns a file that the peer was sent.
func (h *fixture) download(f mesh.File) string {
	h.t.Helper()
	var b bytes.Buffer
	check(h.t, h.peer.GetBlob(h.t.Context(), "", f, func(r io.Reader) error { _, err := io.Copy(&b, r); return err }))
	return b.String()
}

// blobsAnswer makes the mesh answer calls for files, of one method or of all, with a code.
func (h *fixture) blobsAnswer(method string, code int) {
	hook := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/blob/") && (method == "" || r.Method == method) {
			w.WriteHeader(code)
		}
	})
	h.onMesh.Store(&hook)
}

const peersFile = "rows\x00and\ncolumns\n"

// A peer's file is in the context box under its own name, and files in the output box are sent
// with the report.
func TestMeshFilesBothWays(t *testing.T) {
	h := newAwakeFixture(t)
	h.playScript(`
cp "$AGENTSTATELOOP_CONTEXT/attachments/table.csv" "$AGENTSTATELOOP_OUTPUT/sorted table.csv"
ls "$AGENTSTATELOOP_CONTEXT/attachments"
`)
	h.post(mesh.Message{ID: "q1", Kind: mesh.KindAsk, Text: "sort these", Files: []mesh.File{
		h.upload("table.csv", peersFile), h.upload("evil; name.txt", "x"), h.upload("TABLE.csv", "another"), h.upload("Grüße 1.txt", "yz"),
	}})
	h.cron()
	h.wantTasks(state.Success)
	told := h.workFile("prompt")
	wantWords(t, told,
		"table.csv (text/plain, 17 bytes): attachments/table.csv\n",
		"attachment-2.txt (\"evil; name.txt\", text/plain, 1 byte): attachments/attachment-2.txt\n",
		"TABLE-2.csv (TABLE.csv, text/plain, 7 bytes): attachments/TABLE-2.csv\n",
		"Grüße 1.txt (text/plain, 2 bytes): attachments/Grüße 1.txt\n",
	)
	reports := h.reports()
	if len(reports) != 1 || len(reports[0].Files) != 1 || reports[0].Files[0].Name != "sorted table.csv" || reports[0].Files[0].Type != "text/csv" {
		t.Fatalf("reports: %+v", reports)
	}
	if got := h.download(reports[0].Files[0]); got != peersFile {
		t.Errorf("came back: %q", got)
	}
	if strings.Contains(fmt.Sprint(reports), h.blueprint.Dir) {
		t.Errorf("a path of ours went out: %+v", reports)
	}
	h.wantEmpty("outbox")
}

// A question carries a file, and the turn that asked gets the file of the report.
func TestPeerQuestionWithFile(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(`
if [ -z "$(cat prompt | grep 'You asked')" ]; then
	printf 'draft' >draft.md
	us ask ` + peer + ` "is it good?" 10m draft.md
	rm draft.md
	exit
fi
echo "they say $(cat "$AGENTSTATELOOP_CONTEXT/reports/1/review.txt")"
`)
	h.receive(letter{id: "<one@example.com>"})
	h.cron()
	asked := h.reports()
	if len(asked) != 1 || len(asked[0].Files) != 1 || asked[0].Files[0].Name != "draft.md" {
		t.Fatalf("the peer got %+v", asked)
	}
	if got := h.download(asked[0].Files[0]); got != "draft" {
		t.Errorf("the file is %q", got)
	}
	h.post(mesh.Message{ID: "r1", Kind: mesh.KindReport, Text: "see the file", Correlation: asked[0].ID, Files: []mesh.File{h.upload("review.txt", "well done")}})
	h.cron()
	h.wantTasks(state.Success)
	wantWords(t, h.onlyReply().text, "they say well done")
	if told := h.workFile("prompt"); !strings.Contains(told, "review.txt (text/plain, 9 bytes): reports/1/review.txt") {
		t.Errorf("the prompt:\n%s", told)
	}
}

// A message waits on the mesh while its file is unavailable, and delays no other message. If it
// is taken without the file, its prompt says so.
func TestMessageWaitsForFile(t *testing.T) {
	t.Parallel()
	t.Run("later", func(t *testing.T) {
		h := newAwakeFixture(t)
		h.playScript(`cat "$AGENTSTATELOOP_CONTEXT"/attachments/* 2>/dev/null || echo "no file"; true`)
		h.post(mesh.Message{ID: "q1", Text: "first", Files: []mesh.File{h.upload("a.txt", "hello")}})
		h.post(mesh.Message{ID: "q2", Text: "second"})
		h.blobsAnswer("GET", http.StatusServiceUnavailable)
		if r := h.cron(); len(r.Failed) != 1 || !strings.Contains(r.Failed[0].Reason, "the message waits for a file: a.txt from @"+peer) {
			t.Errorf("the poll says %+v", r.Failed)
		}
		h.wantTasks(state.Success) // of the second
		if left := h.waiting(); len(left) != 1 || left[0].ID != "q1" {
			t.Fatalf("on the mesh: %+v", left)
		}
		h.onMesh.Store(nil)
		h.pollAfter(time.Minute)
		h.wantTasks(state.Success, state.Success)
		if got := h.reports(); !strings.Contains(got[1].Text, "hello") {
			t.Errorf("reports: %+v", got)
		}
		h.wantAcknowledged()
	})
	for name, code := range map[string]int{"for good": http.StatusServiceUnavailable, "gone": http.StatusNotFound} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.playScript("grep MISSING prompt")
			h.post(mesh.Message{ID: "q1", Text: "first", Files: []mesh.File{h.upload("a.txt", "hello")}})
			h.blobsAnswer("GET", code)
			h.cron()
			if code != http.StatusNotFound {
				h.pollAfter(8 * time.Minute)
				h.wantTasks()
				h.pollAfter(3 * time.Minute)
			}
			h.wantTasks(state.Success)
			if got := h.reports(); len(got) != 1 || !strings.Contains(got[0].Text, `MISSING: "a.txt" (text/plain, 5 bytes)`) {
				t.Errorf("reports: %+v", got)
			}
		})
	}
}

// On a mesh without files a question with a file is undeliverable, with the reason; a report is
// sent without the file and says so.
func TestMeshWithoutFiles(t *testing.T) {
	h := newAwakeFixture(t)
	h.blobsAnswer("", http.StatusNotFound)
	h.playScript(`
echo hello >"$AGENTSTATELOOP_OUTPUT/a.txt"
echo hello >a.txt
us send ` + peer + ` "with a file" a.txt
echo done
`)
	h.post(mesh.Message{ID: "q1", Kind: mesh.KindAsk, Text: "go"})
	h.cron()
	h.wantTasks(state.Success)
	got := h.reports()
	if len(got) != 1 || got[0].Kind != mesh.KindReport || len(got[0].Files) != 0 || !strings.Contains(got[0].Text, "[file not sent: the file a.txt: mesh: upload file: answered 404: this mesh does not support files]") {
		t.Errorf("the peer got %+v", got)
	}
	given := h.state().Undelivered
	if len(given) != 1 || given[0].Kind != state.Post || !strings.Contains(given[0].Reason, "this mesh does not support files") {
		t.Errorf("given up: %+v", given)
	}
	rows, err := h.agent.Outbox()
	check(t, err)
	if len(rows) != 1 || len(rows[0].Files) != 1 || rows[0].Files[0].Name != "a.txt" {
		t.Fatalf("outbox: %+v", rows)
	}
	if data, err := os.ReadFile(*rows[0].Files[0].Path); string(data) != "hello\n" {
		t.Errorf("its copy holds %q, %v", data, err)
	}
}

// Files may be damaged on the disk before they are sent or after they arrived.
func TestDamagedMeshFiles(t *testing.T) {
	t.Parallel()
	t.Run("before it leaves", func(t *testing.T) {
		h := newAwakeFixture(t)
		h.blobsAnswer("PUT", http.StatusInsufficientStorage)
		h.playScript(`echo hello >a.txt; us send ` + peer + ` "with a file" a.txt; echo done`)
		h.receive(letter{id: "<one@example.com>"})
		h.cron()
		row := h.row(state.Post)
		if !strings.Contains(row.Reason, "507") || row.NotBefore.IsZero() {
			t.Errorf("a full mesh: %+v", row)
		}
		check(t, os.WriteFile(h.agent.Store.Path(row.Files[0].File), []byte("HELLO\n"), 0o600))
		h.onMesh.Store(nil)
		h.pollAfter(2 * time.Minute)
		if given := h.state().Undelivered; len(h.reports()) != 0 || len(given) != 1 || !strings.Contains(given[0].Reason, "damaged") {
			t.Errorf("the peer got %+v; given up: %+v", h.reports(), given)
		}
	})
	t.Run("after it came", func(t *testing.T) {
		h := newAwakeFixture(t)
		h.playScript("grep MISSING prompt")
		h.post(mesh.Message{ID: "q1", Text: "first", Files: []mesh.File{h.upload("a.txt", "hello")}})
		h.collect()
		kept, err := filepath.Glob(h.agent.Store.Path("messages/*.file-1"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("kept %v %v", kept, err)
		}
		check(t, os.WriteFile(kept[0], []byte("HELLO"), 0o600))
		if _, damaged, err := h.agent.CheckFiles(); len(damaged) != 1 || err != nil {
			t.Errorf("doctor: %v %v", damaged, err)
		}
		h.cron()
		h.wantTasks(state.Success)
		if got := h.reports(); len(got) != 1 || !strings.Contains(got[0].Text, "it was damaged after it arrived") {
			t.Errorf("reports: %+v", got)
		}
	})
}

// Files beyond a limit are refused, and no copies are left.
func TestMeshFileLimits(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(`
truncate -s 17M large; mkfifo pipe; truncate -s 12M m1; cp m1 m2; cp m1 m3
for f in large pipe "m1 m2 m3" missing; do us send ` + peer + ` "x" $f 2>&1; done
`)
	h.receive(letter{id: "<one@example.com>"})
	h.cron()
	answer := h.sentOf("reply")[0].text
	wantWords(t, answer, "large has 17825792 bytes", "pipe is not a regular file", "exceed 32 MiB in total", "missing: no such file")
	if len(h.reports()) != 0 {
		t.Errorf("the peer got %+v", h.reports())
	}
	h.wantEmpty("outbox")
}

// A message waits for its files even if no poll had time to ask for them.
func TestMessageWaitsForFileOverPolls(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(`cat "$AGENTSTATELOOP_CONTEXT"/attachments/* 2>/dev/null || echo "no file"; true`)
	slow := h.upload("slow.txt", "slow")
	h.post(mesh.Message{ID: "q1", Text: "first", Files: []mesh.File{slow}})
	h.post(mesh.Message{ID: "q2", Text: "second", Files: []mesh.File{h.upload("b.txt", "in time")}})
	hook := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/blob/"+slow.SHA256 {
			h.clock.advance(21 * time.Second)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	h.onMesh.Store(&hook)
	for range 4 {
		h.pollAfter(4 * time.Minute)
	}
	h.onMesh.Store(nil)
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success, state.Success)
	if got := h.reports(); len(got) != 2 || !strings.Contains(got[0].Text, "no file") || got[1].Text != "in time" {
		t.Errorf("reports: %+v", got)
	}
}

// A report that is sent without one of its files names no local path.
func TestReportNamesNoLocalPath(t *testing.T) {
	h := newAwakeFixture(t)
	h.blobsAnswer("PUT", http.StatusInsufficientStorage)
	h.playScript(`echo hello >"$AGENTSTATELOOP_OUTPUT/a.txt"; echo done`)
	h.post(mesh.Message{ID: "q1", Kind: mesh.KindAsk, Text: "go"})
	h.cron()
	check(t, os.Remove(h.agent.Store.Path(h.row(state.Reply).Files[0].File)))
	h.onMesh.Store(nil)
	h.pollAfter(2 * time.Minute)
	got := h.reports()
	if len(got) != 1 || len(got[0].Files) != 0 || !strings.HasSuffix(got[0].Text, "[file not sent: the file a.txt: its copy was damaged before it was sent]") {
		t.Fatalf("the peer got %+v", got)
	}
	if strings.Contains(fmt.Sprint(got), h.blueprint.Dir) || strings.Contains(fmt.Sprint(got), "outbox") {
		t.Errorf("a path of ours went out: %+v", got)
	}
}

// An error while a file of the output box is saved is reported without the local path.
func TestUnsavedFileIsReported(t *testing.T) {
	h := newAwakeFixture(t)
	h.playScript(`echo hello >"$AGENTSTATELOOP_OUTPUT/a.txt"; echo done`)
	h.agent.Store.Hook = func(step, path string) error {
		if strings.Contains(path, "outbox/file.") && step == "write" {
			return &os.PathError{Op: step, Path: path, Err: syscall.EIO}
		}
		return nil
	}
	h.post(mesh.Message{ID: "q1", Kind: mesh.KindAsk, Text: "go"})
	h.poll()
	h.wantTasks(state.Success)
	got := h.reports()
	if len(got) != 1 || !strings.HasSuffix(got[0].Text, "[file not sent: a.txt: save a.txt: input/output error]") {
		t.Errorf("the peer got %+v", got)
	}
}
