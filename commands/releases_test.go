package commands

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// releases has a state directory of each release, as tar.gz: names of messages have characters that
// a Go module may not have.
const releases = "testdata/releases"

// makeRelease names an environment variable with the path of a program. TestMakeRelease then writes a
// state directory of that program to $AGENTSTATELOOP_RELEASE_TO:
//
//	AGENTSTATELOOP_RELEASE=/path/to/agentstateloop AGENTSTATELOOP_RELEASE_TO=testdata/releases/0.1.0.tar.gz \
//	  go test ./commands -run TestMakeRelease
const makeRelease = "AGENTSTATELOOP_RELEASE"

// The messages of a kept state directory.
const (
	answered    = "the first"  // has its answer
	undelivered = "the second" // its answer was rejected
	suspended   = "the third"  // its turn waits
	waiting     = "the fourth" // of a program, has had no turn
)

// releaseScript is the agent of a kept state directory.
const releaseScript = `prompt=$(cat)
text=$(cat "$AGENTSTATELOOP_CONTEXT/text.txt")
echo notes >"$AGENTSTATELOOP_OUTPUT/notes"
case $text-$prompt in
*"I wait for a report"*) echo "done: $text" ;;
"the third"*) %s submit --after suspend --deadline 24h "I wait for a report" ;;
*) echo "done: $text" ;;
esac`

// releaseAgent returns an agent that has the program of a release. Its mail server rejects the mails
// for which rejects returns true.
func releaseAgent(t *testing.T, program string, rejects func(raw string) bool) (installedAgent, *mailtest.Servers) {
	t.Helper()
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org", OnData: func(_ net.Conn, raw []byte) error {
		if rejects(string(raw)) {
			return &smtp.SMTPError{Code: 550, Message: "no such user"}
		}
		return nil
	}})
	a := installedAgent{tempDir(t), program}
	writeAgent(t, a.dir, servers, "[turn]\ncommand = [\"./agent.sh\"]\n[budget]\nevents_an_hour = 1\n"+noSchedule)
	writeScript(t, filepath.Join(a.dir, "agent.sh"), fmt.Sprintf(releaseScript, program))
	return a, servers
}

// TestMakeRelease writes the state directory of a release, if the environment asks for it.
func TestMakeRelease(t *testing.T) {
	program := os.Getenv(makeRelease)
	if program == "" {
		t.Skip("only to add a release: set " + makeRelease)
	}
	a, servers := releaseAgent(t, program, func(raw string) bool { return strings.Contains(raw, "done: "+undelivered) })
	a.poll(t)
	for _, text := range []string{"another", waiting} { // more than an hour may have
		writeFile(t, filepath.Join(a.dir, "state", "nudges", strings.Fields(text)[len(strings.Fields(text))-1]+".message"), text)
		a.poll(t)
	}
	for _, text := range []string{answered, undelivered, suspended} {
		raw := "From: operator@example.com\r\nSubject: @goulard3120 work\r\nMessage-ID: <" + strings.Fields(text)[1] + "@example.com>\r\n\r\n" + text + "\r\n"
		if _, err := servers.Append([]byte(raw), time.Now()); err != nil {
			t.Fatal(err)
		}
		a.run(t.Context(), "poll", "--quiet") // the rejected answer is an error
		a.waitForProcesses()
	}
	if err := packFolder(filepath.Join(a.dir, "state"), os.Getenv(makeRelease+"_TO")); err != nil {
		t.Fatal(err)
	}
}

// packFolder writes the files of a folder to a tar.gz.
func packFolder(dir, file string) error {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(out)
	to := tar.NewWriter(zip)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, ".lock") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: rel, Size: int64(len(data)), Mode: 0o600}); err != nil {
			return err
		}
		_, err = to.Write(data)
		return err
	})
	return errors.Join(err, to.Close(), zip.Close(), out.Close())
}

// unpackRelease writes the state directory of a release. An upgrade leaves its files as they are, so
// they do not count as copies.
func unpackRelease(t *testing.T, file, dir string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	for from := tar.NewReader(zip); ; {
		head, err := from.Next()
		if errors.Is(err, io.EOF) {
			forgetFile(t, dir)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, head.Name), string(data))
	}
}

// keptReleases returns the archives of releases, by name.
func keptReleases(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(releases, "*.tar.gz"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	all := map[string]string{}
	for _, file := range files {
		all[strings.TrimSuffix(filepath.Base(file), ".tar.gz")] = file
	}
	return all
}

// TestUpgrade reads the state directory of each release, and polls with it. Nothing is lost: its
// history goes on without a break, the waiting mail and the suspended turn get their answers, and the
// undelivered answer can be sent.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for name, file := range keptReleases(t) {
		t.Run(name, func(t *testing.T) {
			a, servers := releaseAgent(t, buildProgram(t, t.TempDir()), func(string) bool { return false })
			unpackRelease(t, file, filepath.Join(a.dir, "state"))
			st := a.store()
			before, err := st.Read()
			if err != nil {
				t.Fatal(err)
			}
			if before.Turn.Status != state.HeadSuspended || len(before.Inbox) != 2 || len(before.Undelivered) != 1 || before.Version != state.Version {
				t.Fatalf("version %d: turn %s, %d messages, %d undelivered", before.Version, before.Turn.Status, len(before.Inbox), len(before.Undelivered))
			}
			history := historyText(t, st)
			// In a new release, the deadline of the report and the hour of the limit are still ahead; later
			// these two change nothing.
			a.run(t.Context(), "report", before.Turn.Waiting[0].ID, "it is done")
			for _, m := range before.Inbox {
				if m.Status == state.Deferred {
					a.run(t.Context(), "inbox", "retry", m.Key)
				}
			}
			a.waitForProcesses()
			a.poll(t)
			a.waitForProcesses()
			a.poll(t)
			a.waitForProcesses()
			if out, code, _ := a.run(t.Context(), "outbox", "retry", before.Undelivered[0].ID); code != exitDone {
				t.Errorf("outbox retry: %d\n%s", code, out)
			}
			after, err := st.Read()
			if err != nil {
				t.Fatal(err)
			}
			if len(after.Inbox) != 0 || len(after.Undelivered) != 0 || after.Serial <= before.Serial || after.Version != state.Version {
				t.Errorf("version %d: %d messages, %d undelivered, serial %d", after.Version, len(after.Inbox), len(after.Undelivered), after.Serial)
			}
			if !strings.HasPrefix(historyText(t, st), history) {
				t.Error("the history was rewritten")
			}
			if audit, err := st.Audit(); err != nil || len(audit.Breaks) > 0 {
				t.Errorf("the history is broken: %v, %v", audit.Breaks, err)
			}
			if n := len(countTaskLines(t, st)); n != 5 {
				t.Errorf("%d messages have a task line, want 5", n)
			}
			var sent strings.Builder
			for _, m := range servers.Sent() {
				sent.Write(m.Raw)
			}
			for _, text := range []string{undelivered, suspended, waiting} {
				if strings.Count(sent.String(), "done: "+text) == 0 {
					t.Errorf("%q has no answer", text)
				}
			}
			if strings.Contains(sent.String(), "done: "+answered) {
				t.Errorf("%q is answered again", answered)
			}
		})
	}
}

func historyText(t *testing.T, st *store.Store) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(st.Dir, "history-*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var text strings.Builder
	for _, file := range files {
		text.WriteString(readFile(t, file))
	}
	return text.String()
}

// TestNewerStateIsRefused checks that a state of a newer program is refused by name, and that no
// command changes a byte of the directory.
func TestNewerStateIsRefused(t *testing.T) {
	t.Parallel()
	a, _ := releaseAgent(t, buildProgram(t, t.TempDir()), func(string) bool { return false })
	dir := filepath.Join(a.dir, "state")
	unpackRelease(t, keptReleases(t)["0.1.0"], dir)
	file := filepath.Join(dir, "state.json")
	newer := strings.Replace(readFile(t, file), `"version":1,`, fmt.Sprintf(`"version":%d,"a_member_of_the_future":{"x":[1]},`, state.VersionHeld+1), 1)
	writeFile(t, file, newer)
	for _, lock := range []string{"cycle.lock", "turn.lock", "state.lock", "backup.lock", "fetch.lock", "hook.lock", "sent.lock", "linger.lock"} {
		writeFile(t, filepath.Join(dir, lock), "") // taking a lock may create it
	}
	if err := os.Mkdir(filepath.Join(dir, "nudges"), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	before := contentOf(t, dir)
	for _, args := range [][]string{
		{"poll"}, {"poll", "--if-due"}, {"status"}, {"inbox", "list"}, {"outbox", "list"}, {"history"}, {"tell", "hello"}, {"halt"}, {"resume"}, {"transition", "PREP"},
		{"stop"}, {"reset"}, {"nudge"}, {"nudge", "--no-poll"}, {"remind", "1h", "look"}, {"answer", "1", "yes"}, {"report", "x", "y"}, {"inbox", "drop", "1"}, {"backup", filepath.Join(a.dir, "b.tar.gz")}, {"move", filepath.Join(a.dir, "b.tar.gz")}, {"move", "--cancel"},
	} {
		out, code, _ := a.run(t.Context(), args...)
		if code == exitDone || !strings.Contains(out, "was written by a newer agentstateloop") {
			t.Errorf("%q: exit code %d\n%s", args, code, out)
		}
		if after := contentOf(t, dir); !maps.Equal(before, after) {
			t.Errorf("%q changed the directory: %q", args, difference(before, after))
			before = after
		}
	}
}

// contentOf returns the content of the files of a folder.
func contentOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all[path] = readFile(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// difference returns the names of the files that two folders do not share.
func difference(a, b map[string]string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if a[name] != b[name] {
			names = append(names, filepath.Base(name))
		}
	}
	return names
}
