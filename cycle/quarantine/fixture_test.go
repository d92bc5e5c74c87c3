package quarantine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newFolder returns an empty quarantine.
func newFolder(t *testing.T) Folder {
	t.Helper()
	return Folder{Store: &store.Store{Dir: t.TempDir(), Agent: "ann"}}
}

// verdict returns the verdict on a mail.
func verdict(key string) Verdict {
	return Verdict{Key: key, Source: state.Mail, From: "eve@example.net", Gate: "trust", Reason: "not signed", At: now.Add(-time.Minute)}
}

// keep keeps an item as an observation does, and fails unless it is kept.
func keep(t *testing.T, in *Intake, v Verdict, payload string) {
	t.Helper()
	if unkept, err := try(in, v, payload); unkept || err != nil {
		t.Fatalf("keep %s: unkept %v, %v", v.Key, unkept, err)
	}
}

// try gives an item to an intake.
func try(in *Intake, v Verdict, payload string) (unkept bool, err error) {
	return in.Keep(v, "", int64(len(payload)), bytes.NewReader([]byte(payload)))
}

// noneKnown is for an intake whose senders are all strangers.
func noneKnown(state.Source, string) bool { return false }

// intake returns the intake of an observation that begins with s.
func intake(f Folder, s state.State) *Intake {
	return NewIntake(f, f.Store, s, func() time.Time { return now }, noneKnown)
}

// keys returns the keys of all items, as text.
func keys(t *testing.T, f Folder) string {
	t.Helper()
	items, err := f.Items()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, i := range items {
		all = append(all, i.Key)
	}
	return fmt.Sprint(all)
}

// damage replaces a file of an item, or removes it if text is "".
func damage(t *testing.T, f Folder, key, file, text string) {
	t.Helper()
	name := f.Store.Path(filepath.Join(Dir(key), file))
	err := os.Remove(name)
	if err == nil && text != "" {
		err = os.WriteFile(name, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
