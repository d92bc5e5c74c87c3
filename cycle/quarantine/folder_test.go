package quarantine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// TestReadBack checks that mails and mesh messages are read as they were kept.
func TestReadBack(t *testing.T) {
	f := newFolder(t)
	mail := verdict("mail:7:12")
	mail.Subject = "hello"
	mesh := Verdict{Key: "mesh:bob:../../q.1", Source: state.Mesh, From: "bob", Gate: "peer", Reason: "not listed", At: now}
	in := intake(f, state.State{})
	for v, payload := range map[Verdict]string{mail: "From: eve\r\n\r\nhi", mesh: `{"id":"q"}`} {
		keep(t, in, v, payload)
		v.Kept, v.Sum = now, store.Sum([]byte(payload))
		got, text, err := f.Open(v.Key)
		if err != nil || got.Verdict != v || string(text) != payload || got.Size != int64(len(payload)) {
			t.Errorf("%s: %+v, %q, %v; want %+v, %q", v.Key, got, text, err, v, payload)
		}
		if dir := filepath.Dir(filepath.Dir(got.Payload)); dir != store.QuarantineDir {
			t.Errorf("the payload of %s is in %s", v.Key, dir)
		}
		if found, err := f.Find(v.Key); err != nil || found != got {
			t.Errorf("Find(%s) = %+v, %v; Open found %+v", v.Key, found, err, got)
		}
	}
	for key, file := range map[string]string{mail.Key: "message.eml", mesh.Key: "message.json"} {
		if i, err := f.Find(key); filepath.Base(i.Payload) != file || err != nil {
			t.Errorf("the payload of %s is %s, want %s", key, i.Payload, file)
		}
	}
}

// TestNotQuarantined checks the error for a key that is not there.
func TestNotQuarantined(t *testing.T) {
	f := newFolder(t)
	for _, key := range []string{"mail:7:1", "", "..", "../state.json"} {
		if _, err := f.Find(key); !errors.Is(err, ErrNotQuarantined) {
			t.Errorf("Find(%q): %v", key, err)
		}
		if _, _, err := f.Open(key); !errors.Is(err, ErrNotQuarantined) {
			t.Errorf("Open(%q): %v", key, err)
		}
	}
}

// TestMovedItemIsNotFound checks that an item is not found under the key of the
// folder that it was moved to.
func TestMovedItemIsNotFound(t *testing.T) {
	f := newFolder(t)
	keep(t, intake(f, state.State{}), verdict("one"), "x")
	if err := os.Rename(f.Store.Path(Dir("one")), f.Store.Path(Dir("two"))); err != nil {
		t.Fatal(err)
	}
	if i, err := f.Find("two"); !errors.Is(err, ErrNotQuarantined) {
		t.Errorf("Find(two) = %+v, %v", i, err)
	}
}

// TestItemsAreInOrder checks that the item that was kept first comes first, and
// that the older verdicts without that time count from their mail's.
func TestItemsAreInOrder(t *testing.T) {
	f := newFolder(t)
	if got := keys(t, f); got != "[]" {
		t.Errorf("an empty quarantine holds %s", got)
	}
	for key, after := range map[string]time.Duration{"c": 0, "b": time.Hour, "a": 2 * time.Hour, "a2": 2 * time.Hour} {
		in := intake(f, state.State{})
		in.now = func() time.Time { return now.Add(after) }
		keep(t, in, verdict(key), "x")
	}
	keep(t, intake(f, state.State{}), verdict("old"), "x")
	damage(t, f, "old", verdictFile, `{"key":"old","source":"mail","at":"2026-03-01T13:30:00Z"}`)
	if got, want := keys(t, f), "[c b old a a2]"; got != want {
		t.Errorf("the order is %s, want %s", got, want)
	}
	if n, err := f.Count(); n != 5 || err != nil {
		t.Errorf("Count() = %d, %v", n, err)
	}
}

// TestDamagedItems checks that an unreadable item hides no other item, and that opening it
// returns an error.
func TestDamagedItems(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		gone       bool // the error is ErrNotQuarantined
	}{
		"a verdict cut short":  {file: verdictFile, text: `{"key": "bad", "sour`},
		"an empty verdict":     {file: verdictFile, text: "\n"},
		"a verdict of another": {file: verdictFile, text: `{"key": "mail:1"}`, gone: true},
		"no verdict":           {file: verdictFile, gone: true},
		"no payload":           {file: mailFile, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			in := intake(f, state.State{})
			keep(t, in, verdict("bad"), "x")
			keep(t, in, verdict("good"), "y")
			damage(t, f, "bad", c.file, c.text)
			if got := keys(t, f); got != "[good]" {
				t.Errorf("the items are %s, want the good one", got)
			}
			for try, err := range map[string]error{
				"Find": func() error { _, err := f.Find("bad"); return err }(),
				"Open": func() error { _, _, err := f.Open("bad"); return err }(),
			} {
				if err == nil || errors.Is(err, ErrNotQuarantined) != c.gone {
					t.Errorf("%s: %v", try, err)
				}
			}
			if n, err := f.Count(); n != 2 || err != nil {
				t.Errorf("Count() = %d, %v", n, err)
			}
		})
	}
}

// TestRemove checks that an item goes with its folder, and that removing it again
// is not an error.
func TestRemove(t *testing.T) {
	f := newFolder(t)
	in := intake(f, state.State{})
	keep(t, in, verdict("one"), "x")
	keep(t, in, verdict("two"), "y")
	for range 2 {
		if err := f.Remove("one"); err != nil {
			t.Fatal(err)
		}
	}
	if got := keys(t, f); got != "[two]" {
		t.Errorf("the items are %s", got)
	}
	if _, err := os.Stat(f.Store.Path(Dir("one"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}

// TestSameItemUnderOtherKey checks what counts as the same item under another key.
func TestSameItemUnderOtherKey(t *testing.T) {
	item := Item{Verdict: verdict("mail:7:12")}
	same := item.Same([]byte("text"))
	other := Item{Verdict: verdict("mail:8:1")}
	other.Kept = now
	if got := other.Same([]byte("text")); got != same {
		t.Errorf("another key: %s, want %s", got, same)
	}
	if got := other.Same([]byte("test")); got == same {
		t.Error("another text is the same")
	}
	other.At = other.At.Add(time.Second)
	if got := other.Same([]byte("text")); got == same {
		t.Error("another time is the same")
	}
}
