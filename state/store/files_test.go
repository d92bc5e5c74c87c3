package store

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// hostileNames is what a key, a file name or a peer's id may be made of.
var hostileNames = []string{
	"plain", "with space", "..", ".", "../../etc/passwd", "/etc/passwd", "a/b/c", `back\slash`, "nul\x00byte", "new\nline",
	".hidden", "trailing.", "%2F", "%", "%zz", "-rf", "~root", "$(id)", "`id`", "'quote\"", "ünïcödé", "\xff\xfe broken",
	"\u202eoverride", "\x1b[2Jescape", "mail:0a1b.7.41", "mesh:dorlange3120:x", "CON", "state.json", "",
	strings.Repeat("long", 100), strings.Repeat("ü", 300), strings.Repeat("%", 200), strings.Repeat("x", 199), strings.Repeat("x", 201),
}

// TestPayloadName: every key has a name of its own, one file deep below its
// folder, that a file system takes.
func TestPayloadName(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	names := map[string]string{}
	keys := append([]string{}, hostileNames...)
	for _, key := range hostileNames {
		// A key made to meet the shortened name of another.
		keys = append(keys, key+"x", strings.TrimSuffix(filepath.Base(PayloadName(MessagesDir, key, ".eml")), ".eml"))
	}
	seen := map[string]bool{}
	for _, key := range keys {
		if seen[key] {
			continue
		}
		seen[key] = true
		name := PayloadName(MessagesDir, key, ".eml")
		if filepath.Dir(name) != MessagesDir || len(filepath.Base(name)) > 210 {
			t.Errorf("%q: %q", key, name)
		}
		if other, taken := names[name]; taken {
			t.Errorf("%q and %q are both %q", key, other, name)
		}
		names[name] = key
		if err := st.Keep(name, strings.NewReader(key)); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		if folder := PayloadName(QuarantineDir, key, ""); key != "" && filepath.Dir(folder) != QuarantineDir {
			t.Errorf("%q: folder %q", key, folder)
		}
	}
	for name, key := range names {
		if data, err := os.ReadFile(st.Path(name)); err != nil || string(data) != key {
			t.Errorf("%q: %q, %v", key, data, err)
		}
	}
	entries, err := os.ReadDir(st.Path(MessagesDir))
	if err != nil || len(entries) != len(names) {
		t.Errorf("%d files for %d keys, %v", len(entries), len(names), err)
	}
}

// TestKeep: a payload is whole under its name or not there; what was there stays
// until then.
func TestKeep(t *testing.T) {
	for _, step := range []string{"write", "fsync", "rename", "fsyncdir"} {
		st := &Store{Dir: t.TempDir()}
		if err := st.Keep("outbox/ack.1.eml", strings.NewReader("old")); err != nil {
			t.Fatal(err)
		}
		st.Hook = func(at, path string) error {
			if at == step {
				return errNoSpace
			}
			return nil
		}
		err := st.Keep("outbox/ack.1.eml", strings.NewReader("new"))
		data, readErr := os.ReadFile(st.Path("outbox/ack.1.eml"))
		if err == nil || readErr != nil {
			t.Errorf("%s: %v, %v", step, err, readErr)
		}
		want := "old"
		if step == "fsyncdir" {
			want = "new" // perhaps not durable, therefore the error
		}
		if string(data) != want {
			t.Errorf("%s: %q, want %q", step, data, want)
		}
		st.Hook = nil
		if err := st.Keep("outbox/ack.1.eml", strings.NewReader("new")); err != nil {
			t.Errorf("%s: again: %v", step, err)
		}
	}
}

func TestRing(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	if rung, err := st.Rung(); err != nil || len(rung) != 0 {
		t.Fatalf("nothing was rung: %v, %v", rung, err)
	}
	for i := range 100 {
		if err := st.Ring("shell", fmt.Sprint("nudge ", i)); err != nil {
			t.Fatal(err)
		}
	}
	rung, err := st.Rung()
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
			t.Errorf("one that is gone already: %v", err)
		}
	}
	if rung, err := st.Rung(); err != nil || len(rung) != 0 {
		t.Errorf("left: %v, %v", rung, err)
	}
}

// TestRingLasts: the name of nudges/ itself is durable when Ring returns, though
// somebody else made the folder.
func TestRingLasts(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	if err := os.Mkdir(st.Path(NudgesDir), 0o700); err != nil {
		t.Fatal(err)
	}
	synced := map[string]bool{}
	st.Hook = func(step, path string) error {
		synced[path] = synced[path] || step == "fsyncdir"
		return nil
	}
	if err := st.Ring("shell", ""); err != nil {
		t.Fatal(err)
	}
	if !synced[st.Path(NudgesDir)] || !synced[filepath.Clean(st.Dir)] {
		t.Errorf("fsynced: %v", synced)
	}
}

// TestRungByOthers: any script may drop a file; what is in it is text at most.
func TestRungByOthers(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	dir := st.Path(NudgesDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		rung, err := st.Rung()
		if err != nil || len(rung) != 1 {
			t.Fatalf("%q: %v, %v", content, rung, err)
		}
		got := rung[0].Reason
		if rung[0].From != "" {
			got = rung[0].From + ": " + got
		}
		if got != want || !utf8.ValidString(got) {
			t.Errorf("%.40q: told %q, want %q", content, got, want)
		}
		if err := st.Unring(rung[0]); err != nil {
			t.Error(err)
		}
	}
}

// TestRungNames: hostile names ring and can be removed; what is still being
// written, folders, and where links lead are left alone.
func TestRungNames(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	dir := st.Path(NudgesDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, name := range hostileNames {
		if strings.ContainsAny(name, "/\x00") || name == "" || name == "." || name == ".." || len(name) > 255 {
			continue // no file can have it
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(name, ".") {
			want++
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": secret, "dangling": "/nowhere", "folder-link": "/"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		want++
	}
	if err := os.WriteFile(filepath.Join(dir, "half.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	rung, err := st.Rung()
	if err != nil || len(rung) != want {
		t.Errorf("%d rang, want %d; %v", len(rung), want, err)
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
	if rung, err := st.Rung(); err != nil || len(rung) != 0 {
		t.Errorf("left: %v, %v", rung, err)
	}
}

// TestSameNameRingsAgain: a nudge file written anew under the same name is
// another nudge.
func TestSameNameRingsAgain(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	path := st.Path(filepath.Join(NudgesDir, "again"))
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for i := range 3 {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(int64(1_700_000_000+i), 0)); err != nil {
			t.Fatal(err)
		}
		rung, err := st.Rung()
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

func TestLog(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.FixedZone("CET", 3600))
	for _, text := range []string{"poll: IDLE", "two\nlines", "\x1b[31mred"} {
		if err := st.Log(now, text); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(st.Path("log"))
	want := "2026-03-02T08:30:00Z poll: IDLE\n2026-03-02T08:30:00Z two lines\n2026-03-02T08:30:00Z [31mred\n"
	if err != nil || string(data) != want {
		t.Errorf("log is %q, want %q; %v", data, want, err)
	}
	// At 1 MiB it begins anew, with one old copy.
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(st.Path("log"), []byte(strings.Repeat(content+"\n", longestLog/6)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := st.Log(now, "after "+content); err != nil {
			t.Fatal(err)
		}
	}
	data, err = os.ReadFile(st.Path("log"))
	if err != nil || string(data) != "2026-03-02T08:30:00Z after second\n" {
		t.Errorf("log is %q, %v", data, err)
	}
	old, err := os.ReadFile(st.Path("log.1"))
	if err != nil || !strings.HasPrefix(string(old), "second\n") {
		t.Errorf("the old log begins %.20q, %v", old, err)
	}
}
