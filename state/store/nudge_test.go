package store

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"agentstateloop/state"
)

// hostileNames lists names that a key, a file name or a peer's id may have.
var hostileNames = []string{
	"plain", "with space", "..", ".", "../../etc/passwd", "/etc/passwd", "a/b/c", `back\slash`, "nul\x00byte", "new\nline",
	".hidden", "trailing.", "%2F", "%", "%zz", "-rf", "~root", "$(id)", "`id`", "'quote\"", "ünïcödé", "\xff\xfe broken",
	"\u202eoverride", "\x1b[2Jescape", "mail:0a1b.7.41", "mesh:dorlange3120:x", "CON", "state.json", "",
	strings.Repeat("long", 100), strings.Repeat("ü", 300), strings.Repeat("%", 200), strings.Repeat("x", 199), strings.Repeat("x", 201),
}

// readNudges returns the files in nudges/ with their content, as if no poll had taken one.
func readNudges(st *Store) ([]NudgeFile, error) {
	list, err := st.Nudges(state.State{})
	for i := range list.New {
		st.ReadNudge(&list.New[i])
	}
	return list.New, err
}

func TestRingKeepsEachNudge(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	if rung, err := readNudges(st); err != nil || len(rung) != 0 {
		t.Fatalf("no nudge: %v, %v", rung, err)
	}
	for i := range 100 {
		check(t, st.Ring("shell", fmt.Sprint("nudge ", i)))
	}
	rung, err := readNudges(st)
	if err != nil || len(rung) != 100 {
		t.Fatalf("%d of 100 nudges, %v", len(rung), err)
	}
	keys := map[string]bool{}
	for _, n := range rung {
		if keys[n.Key] || n.From != "shell" || !strings.HasPrefix(n.Reason, "nudge ") || n.At.IsZero() {
			t.Errorf("nudge %+v", n)
		}
		keys[n.Key] = true
		if err := st.Unring(n); err != nil {
			t.Error(err)
		}
		if err := st.Unring(n); err != nil {
			t.Errorf("Unring of a nudge that is gone: %v", err)
		}
	}
	if rung, err := readNudges(st); err != nil || len(rung) != 0 {
		t.Errorf("left: %v, %v", rung, err)
	}
}

// TestRingMakesTheFolderDurable checks that the name of nudges/ itself is durable when Ring
// returns, even if another program has created the folder.
func TestRingMakesTheFolderDurable(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	check(t, os.Mkdir(st.Path(NudgesDir), 0o700))
	synced, files := map[string]bool{}, 0
	st.Hook = func(step, path string) error {
		synced[path] = synced[path] || step == "fsyncdir"
		if step == "fsync" && filepath.Dir(path) == st.Path(NudgesDir) {
			files++
		}
		return nil
	}
	check(t, st.Ring("shell", ""))
	if !synced[st.Path(NudgesDir)] || !synced[filepath.Clean(st.Dir)] || files != 1 {
		t.Errorf("fsynced: %v, and %d files", synced, files)
	}
}

// A poll may see a nudge, and remove it, while the disk still writes it.
func TestNudgeReadBeforeFsync(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	mark, settle, err := st.RingAtOnce("shell", "now")
	check(t, err)
	rung, err := readNudges(st)
	if err != nil || len(rung) != 1 || rung[0].Reason != "now" || !strings.HasPrefix(rung[0].Key, mark) {
		t.Fatalf("seen: %+v, %v", rung, err)
	}
	check(t, st.Unring(rung[0]))
	if err := settle(); err != nil {
		t.Error(err)
	}
}

// A nudge is recorded when the disk has it, or it is an error.
func TestNudgeFsyncFails(t *testing.T) {
	for _, fails := range []string{"write", "rename", "fsync", "fsyncdir"} {
		st := &Store{Dir: t.TempDir()}
		st.Hook = func(step, path string) error {
			if step == fails && path != filepath.Clean(st.Dir) {
				return errors.New("the disk is gone")
			}
			return nil
		}
		if err := st.Ring("shell", ""); err == nil || !strings.Contains(err.Error(), "record nudge: the disk is gone") {
			t.Errorf("%s: %v", fails, err)
		}
	}
}

// TestNudgeFilesOfScripts checks that any script may add a file, and that its content is
// nothing but text.
func TestNudgeFilesOfScripts(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	dir := st.Path(NudgesDir)
	check(t, os.Mkdir(dir, 0o700))
	for content, want := range map[string]string{
		"":                                     "",
		"build done\n":                         "build done",
		`{"from":"ci","reason":"red"}`:         "ci: red",
		`{"reason":7}`:                         `{"reason":7}`,
		"two\nlines\r\nhere":                   "two lines here",
		"\x1b[2J\x07bell\u009b31m":             "[2J bell 31m",
		"\xff\xfebroken":                       "\uFFFDbroken",
		"a\u2028b\u202ec":                      "a b\ufffdc",
		`{"from":"a\u0000b","reason":"x\ny"}`:  "a b: x y",
		strings.Repeat("long ", 10_000):        strings.TrimSpace(string([]rune(strings.Repeat("long ", 10_000))[:200])) + " …",
		`{"reason":"` + strings.Repeat("x", 9): `{"reason":"` + strings.Repeat("x", 9),
	} {
		path := filepath.Join(dir, "dropped")
		check(t, os.WriteFile(path, []byte(content), 0o644))
		rung, err := readNudges(st)
		if err != nil || len(rung) != 1 {
			t.Fatalf("%q: %v, %v", content, rung, err)
		}
		got := rung[0].Reason
		if rung[0].From != "" {
			got = rung[0].From + ": " + got
		}
		if got != want || !utf8.ValidString(got) {
			t.Errorf("%.40q: reason %q, want %q", content, got, want)
		}
		if err := st.Unring(rung[0]); err != nil {
			t.Error(err)
		}
	}
}

// TestHostileNudgeNames checks that files with hostile names are nudges and can be removed.
// Files still being written, folders and the targets of links are left alone.
func TestHostileNudgeNames(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	dir := st.Path(NudgesDir)
	check(t, os.Mkdir(dir, 0o700))
	want := 0
	for _, name := range hostileNames {
		if strings.ContainsAny(name, "/\x00") || name == "" || name == "." || name == ".." || len(name) > 255 {
			continue // not a possible file name
		}
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		if !strings.HasPrefix(name, ".") {
			want++
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("hunter2"), 0o600))
	for link, to := range map[string]string{"link": secret, "dangling": "/nowhere", "folder-link": "/"} {
		check(t, os.Symlink(to, filepath.Join(dir, link)))
		want++
	}
	check(t, os.WriteFile(filepath.Join(dir, "half.tmp"), nil, 0o600))
	check(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	rung, err := readNudges(st)
	if err != nil || len(rung) != want {
		t.Errorf("%d nudges, want %d; %v", len(rung), want, err)
	}
	keys := map[string]bool{}
	for _, n := range rung {
		if keys[n.Key] || n.Reason != "" || strings.ContainsAny(n.Key, "\n\x00\x1b ") {
			t.Errorf("%q: key %q, reason %q", n.Name, n.Key, n.Reason)
		}
		keys[n.Key] = true
		if err := st.Unring(n); err != nil {
			t.Error(err)
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "hunter2" {
		t.Errorf("where the link leads: %q, %v", data, err)
	}
	if rung, err := readNudges(st); err != nil || len(rung) != 0 {
		t.Errorf("left: %v, %v", rung, err)
	}
}

// A file that takes the place of one that was read is not removed with it: a program may
// use one name, and what it says then was not read yet.
func TestUnringKeepsNewerFile(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	dir := st.Path(NudgesDir)
	check(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "ci"+MessageSuffix)
	check(t, os.WriteFile(path, []byte("the build is red"), 0o600))
	rung, err := readNudges(st)
	if err != nil || len(rung) != 1 {
		t.Fatal(rung, err)
	}
	next := filepath.Join(dir, ".next")
	check(t, os.WriteFile(next, []byte("the build is green"), 0o600))
	check(t, os.Rename(next, path))
	check(t, st.Unring(rung[0]))
	if rung, err = readNudges(st); err != nil || len(rung) != 1 || string(rung[0].Text) != "the build is green" {
		t.Fatalf("left: %+v, %v", rung, err)
	}
	check(t, st.Unring(rung[0]))
	if rung, err = readNudges(st); err != nil || len(rung) != 0 {
		t.Errorf("left: %+v, %v", rung, err)
	}
}

// TestRewrittenFileIsNewNudge checks that a nudge file that is written again under the
// same name is another nudge.
func TestRewrittenFileIsNewNudge(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	path := st.Path(filepath.Join(NudgesDir, "again"))
	check(t, os.Mkdir(filepath.Dir(path), 0o700))
	keys := map[string]bool{}
	for i := range 3 {
		check(t, os.WriteFile(path, nil, 0o600))
		check(t, os.Chtimes(path, time.Time{}, time.Unix(int64(1_700_000_000+i), 0)))
		rung, err := readNudges(st)
		if err != nil || len(rung) != 1 {
			t.Fatal(rung, err)
		}
		keys[rung[0].Key] = true
		if _, err := url.PathUnescape(rung[0].Key); err != nil {
			t.Error(err)
		}
	}
	if len(keys) != 3 {
		t.Errorf("three nudges, keys %v", keys)
	}
}
