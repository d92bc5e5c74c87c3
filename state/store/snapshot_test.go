package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// restore writes a snapshot to a new directory.
func restore(t *testing.T, s *Snapshot, agent string) *Store {
	t.Helper()
	st := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: agent}
	for _, f := range s.Files {
		from, err := s.Open(f)
		check(t, err)
		check(t, osfile.MkdirAll(filepath.Dir(st.path(f.Name))))
		to, err := os.Create(st.path(f.Name))
		check(t, err)
		if n, err := io.Copy(to, io.LimitReader(from, f.Size)); err != nil || n != f.Size {
			t.Fatalf("%s: %d of %d bytes, %v", f.Name, n, f.Size, err)
		}
		check(t, errors.Join(from.Close(), to.Close()))
	}
	return st
}

func mustSnapshot(t *testing.T, st *Store) *Snapshot {
	t.Helper()
	s, err := st.Snapshot(t.Context(), time.Now())
	check(t, err)
	if s == nil {
		t.Fatal("another process has a snapshot")
	}
	return s
}

// TestSnapshotFiles checks which files a snapshot has.
func TestSnapshotFiles(t *testing.T) {
	st, story := startedStore(t)
	turn := AttemptDir("t9", 1)
	_, err := st.Commit(t.Context(), story.Now, func(s state.State, _ Recovery) (state.State, error) {
		s.Serial++
		s.Lines = nil
		s.Turn.TurnID, s.Turn.Epoch, s.Turn.Status = "t9", 2, state.HeadRunning
		s.Inbox = []state.Message{{Key: "mail:1", Payload: "messages/mail:1.eml", TurnID: "t8"}}
		return s, nil
	})
	check(t, err)
	wanted := []string{
		"state.json", "memory.md", "memory.d/peer-x.md", "memory.md.prev", "memory.d.prev/peer-y.md", "models.json", "history-2026-03.jsonl", "nudges/waiting",
		"messages/mail:1.eml", "outbox/reply.t1.eml", "sent/ack.1.eml", "quarantine/k/verdict.json",
		turn + "/output/a", turn + "/output/b/c", turn + "/steps.jsonl", turn + "/events.jsonl", turn + "/submitted.1.json",
		AttemptDir("t9", 2) + "/steps.jsonl", AttemptDir("t8", 1) + "/output/a",
	}
	left := []string{
		"log", "log.1", "roots", "state.json.prev", "message-id.key", "heartbeat.fail", "crontab-backups/1", "state.json.corrupt-1", "history-2026-03.jsonl.wrong-1",
		"messages/half.tmp", turn + "/context/text.txt", turn + "/prompt", turn + "/process", turn + "/alive", turn + "/live.json", turn + "/feed.jsonl",
		AttemptDir("t9", 2) + "/output/half", AttemptDir("t7", 1) + "/output/a",
	}
	for _, name := range slices.Concat(wanted, left) {
		if _, err := os.Lstat(st.path(name)); err == nil {
			continue
		}
		check(t, osfile.MkdirAll(filepath.Dir(st.path(name))))
		check(t, os.WriteFile(st.path(name), []byte(name), 0o600))
	}
	check(t, syscall.Mkfifo(st.path(turn+"/output/pipe"), 0o600))
	check(t, os.Symlink("/etc/passwd", st.path("messages/link")))
	check(t, st.Ring("ci", "taken"))
	for _, n := range mustNudges(t, st) {
		if n.Reason != "taken" {
			continue
		}
		_, err := st.Commit(t.Context(), story.Now, func(s state.State, _ Recovery) (state.State, error) {
			s.Serial++
			s.Nudges = []string{n.Key}
			return s, nil
		})
		check(t, err)
	}

	snapshot := mustSnapshot(t, st)
	var found []string
	for _, f := range snapshot.Files {
		found = append(found, f.Name)
	}
	slices.Sort(wanted)
	if !slices.Equal(found, wanted) {
		t.Errorf("the snapshot has\n%q, want\n%q", found, wanted)
	}
	if want := []string{"messages/link", turn + "/output/pipe"}; !slices.Equal(snapshot.Skipped, want) {
		t.Errorf("skipped: %q, want %q", snapshot.Skipped, want)
	}
	if second, err := st.Snapshot(t.Context(), time.Now()); second != nil || err != nil {
		t.Errorf("a second snapshot at the same time: %v, %v", second, err)
	}

	// Later changes leave it as it is.
	serial := snapshot.State.Serial
	check(t, st.Remove("messages/mail:1.eml"))
	check(t, commitLine(st, story, "09:40 poll"))
	back := restore(t, snapshot, st.Agent)
	if s, recovery, err := back.load(); err != nil || recovery.Reason != "" || s.Serial != serial {
		t.Errorf("serial %d, %q, %v; want %d", s.Serial, recovery.Reason, err, serial)
	}
	check(t, snapshot.Close())
	if _, err := os.Lstat(st.path(snapshotDir)); !os.IsNotExist(err) {
		t.Errorf("its links stay: %v", err)
	}

	// A process that was killed has left its links.
	check(t, os.MkdirAll(st.path(snapshotDir+"/messages/old"), 0o700))
	check(t, mustSnapshot(t, st).Close())
}

func mustNudges(t *testing.T, st *Store) []NudgeFile {
	t.Helper()
	all, err := readNudges(st)
	check(t, err)
	return all
}

// TestSnapshotWithoutState checks the error before the first commit.
func TestSnapshotWithoutState(t *testing.T) {
	st := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}
	if _, err := st.Snapshot(t.Context(), time.Now()); !errors.Is(err, ErrNoState) {
		t.Error(err)
	}
	if _, err := os.Lstat(st.Dir); !os.IsNotExist(err) {
		t.Errorf("it made the directory: %v", err)
	}
}

// rowsWriter commits as turns and polls do: each commit names new payloads, and then removes those of
// the commit before.
type rowsWriter struct{ *Store }

func (w rowsWriter) commit(ctx context.Context) error {
	var names []string
	for range 3 {
		name := PayloadName(MessagesDir, NewID(), ".txt")
		if err := w.Keep(name, strings.NewReader("a message")); err != nil {
			return err
		}
		names = append(names, name)
	}
	var old []state.Message
	_, err := w.Commit(ctx, time.Now(), func(s state.State, why Recovery) (state.State, error) {
		if why.Reason != "" {
			return s, errors.New(why.Reason)
		}
		old = s.Inbox
		s.Serial++
		s.Inbox = nil
		for _, name := range names {
			s.Inbox = append(s.Inbox, state.Message{Key: name, Payload: name})
		}
		s.Lines = []state.Line{{Serial: s.Serial, At: time.Now().UTC(), Kind: state.LineHalt}}
		return s, nil
	})
	if err != nil {
		return err
	}
	for _, m := range old {
		err = errors.Join(err, w.Remove(m.Payload))
	}
	return err
}

// TestSnapshotAmongCommits lets another process commit while a snapshot links its payloads, in its
// first tries or in all. In the snapshot the state is whole, it has each payload that the state
// names, and the history ends where the state does.
func TestSnapshotAmongCommits(t *testing.T) {
	for commits := range snapshotTries + 1 {
		writer := rowsWriter{&Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}}
		reader := &Store{Dir: writer.Dir, Agent: writer.Agent}
		check(t, writer.commit(t.Context()))
		try, committed := 0, 0
		reader.Hook = func(step, path string) error {
			if step != "link" {
				return nil
			}
			if strings.HasPrefix(filepath.Base(path), "history-") {
				try++
				return nil
			}
			if committed == min(try, commits) || !strings.Contains(path, MessagesDir) {
				return nil
			}
			lock, err := writer.TryLock(stateLock)
			if lock == nil {
				return err // the snapshot holds it, in its last try
			}
			check(t, lock.Unlock())
			committed = try
			return writer.commit(t.Context())
		}
		s := mustSnapshot(t, reader)
		if want := min(commits+1, snapshotTries); try != want {
			t.Errorf("%d commits: %d tries, want %d", commits, try, want)
		}
		reader.Hook = nil
		for _, fault := range faultsOf(restore(t, s, writer.Agent), s) {
			t.Errorf("%d commits: %s", commits, fault)
		}
		check(t, s.Close())
	}
}

// TestSnapshotAfterCrash checks a snapshot of a directory in which a commit was interrupted: its
// lines are not yet in the history, or a torn line is.
func TestSnapshotAfterCrash(t *testing.T) {
	writer := rowsWriter{&Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}}
	check(t, writer.commit(t.Context()))
	crash := errors.New("crash")
	writer.Hook = func(step, _ string) error {
		if step == "append" {
			return crash
		}
		return nil
	}
	if err := writer.commit(t.Context()); !errors.Is(err, crash) {
		t.Fatal(err)
	}
	reader := &Store{Dir: writer.Dir, Agent: writer.Agent}
	s := mustSnapshot(t, reader)
	for _, fault := range faultsOf(restore(t, s, writer.Agent), s) {
		t.Error(fault)
	}
	check(t, s.Close())
	history := writer.path(historyName(time.Now()))
	add(t, history, `{"serial":3,"half a li`)
	s = mustSnapshot(t, reader)
	back := restore(t, s, writer.Agent)
	if text, err := os.ReadFile(back.path(filepath.Base(history))); err != nil || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("the history ends with %q, %v", text[max(0, len(text)-40):], err)
	}
	check(t, s.Close())
}

// TestSnapshotOfReplacedFile replaces files between the measuring and the linking. The snapshot has
// the size of the file that it links, skips a link, and leaves out a removed file.
func TestSnapshotOfReplacedFile(t *testing.T) {
	st, _ := startedStore(t)
	check(t, osfile.MkdirAll(st.path(MessagesDir)))
	for name, replace := range map[string]func(path string) error{
		ModelsFile: func(path string) error {
			return errors.Join(os.WriteFile(path+".tmp", []byte("a longer lesson"), 0o600), os.Rename(path+".tmp", path))
		},
		MessagesDir + "/link":    func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)) },
		MessagesDir + "/removed": os.Remove,
	} {
		check(t, os.WriteFile(st.path(name), []byte("short"), 0o600))
		done := false
		st.Hook = func(step, path string) error {
			if step != "link" || done || filepath.Base(path) != filepath.Base(name) {
				return nil
			}
			done = true
			return replace(st.path(name))
		}
		s := mustSnapshot(t, st)
		st.Hook = nil
		texts := map[string]string{}
		for _, f := range s.Files {
			from, err := s.Open(f)
			check(t, err)
			text, err := io.ReadAll(io.LimitReader(from, f.Size))
			check(t, errors.Join(err, from.Close()))
			texts[f.Name] = string(text)
		}
		want := map[string]string{ModelsFile: "a longer lesson"}[name]
		if got := texts[name]; !done || got != want {
			t.Errorf("%s: the snapshot has %q, want %q", name, got, want)
		}
		if skipped := slices.Contains(s.Skipped, name); skipped != (name == MessagesDir+"/link") {
			t.Errorf("%s: skipped %q", name, s.Skipped)
		}
		check(t, s.Close())
		check(t, osfile.RemoveAll(st.path(name)))
	}
}

// faultsOf returns how a restored directory differs from the promise of a snapshot.
func faultsOf(st *Store, snapshot *Snapshot) (faults []string) {
	s, recovery, err := st.load()
	if err != nil || recovery.Reason != "" || s.Serial != snapshot.State.Serial {
		return []string{fmt.Sprintf("serial %d, want %d; %q, %v", s.Serial, snapshot.State.Serial, recovery.Reason, err)}
	}
	for _, m := range s.Inbox {
		if _, err := os.Lstat(st.path(m.Payload)); err != nil {
			faults = append(faults, err.Error())
		}
	}
	var failed []error
	var last uint64
	for l := range st.fileLines(&failed) {
		last = l.Serial
	}
	if last != s.Serial || len(failed) > 0 {
		faults = append(faults, fmt.Sprintf("the history ends at %d, the state at %d; %v", last, s.Serial, failed))
	}
	return faults
}
