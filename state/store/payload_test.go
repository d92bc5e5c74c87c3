package store

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// TestPayloadName checks that every key has a name of its own, directly in its folder, that the
// file system accepts.
func TestPayloadName(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	names := map[string]string{}
	keys := append([]string{}, hostileNames...)
	for _, key := range hostileNames {
		// A key that equals the shortened name of another.
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

// TestKeepReplacesAPayloadAtOnce checks that a payload is either whole under its name or not there,
// and that the old one stays until then.
func TestKeepReplacesAPayloadAtOnce(t *testing.T) {
	for _, step := range []string{"write", "copy", "fsync", "rename", "fsyncdir"} {
		st := &Store{Dir: t.TempDir()}
		check(t, st.Keep("outbox/ack.1.eml", strings.NewReader("old")))
		st.Hook = func(at, path string) error {
			if at == step {
				return errNoSpace
			}
			return nil
		}
		var content io.Reader = strings.NewReader("new")
		if step == "copy" {
			content = io.MultiReader(content, iotest.ErrReader(errNoSpace))
		}
		err := st.Keep("outbox/ack.1.eml", content)
		data, readErr := os.ReadFile(st.Path("outbox/ack.1.eml"))
		if err == nil || readErr != nil {
			t.Errorf("%s: %v, %v", step, err, readErr)
		}
		want := "old"
		if step == "fsyncdir" {
			want = "new" // but perhaps not durable, hence the error
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
