package osfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"agentstateloop/internal/osfile"
)

// Drafts of processes that work at the same time do not take each other for leftovers.
func TestDraftsAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for writer := range 8 {
		all.Go(func() {
			for n := range 200 {
				f, err := osfile.NewDraft(dir, ".draft-*")
				if err != nil {
					t.Error(err)
					return
				}
				err = os.Rename(f.Name(), filepath.Join(dir, fmt.Sprintf("whole-%d-%d", writer, n)))
				if f.Close(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 8*200 {
		t.Errorf("%d files, %v", len(entries), err)
	}
}

func TestRemoveDrafts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a [folder]*")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".draft-1", ".draft-2", "draft-3", ".draft"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("draft-3", filepath.Join(dir, ".draft-link")); err != nil {
		t.Fatal(err)
	}
	used, err := osfile.NewDraft(dir, ".draft-*") // removes the leftovers
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	osfile.RemoveDrafts(dir, ".draft-*")
	var left []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{".draft", ".draft-link", filepath.Base(used.Name()), "draft-3"}
	slices.Sort(want)
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("%q, %v; want %q", left, err, want)
	}
}

// TestReplace replaces files and creates one, and never replaces what is not a file.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		if err := osfile.Replace(name, ".draft-*", 0o644, []byte(name)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		info, statErr := os.Lstat(file)
		if err != nil || statErr != nil || string(data) != name || info.Mode() != 0o644 {
			t.Errorf("%s: %q %v, %v %v", name, data, err, info, statErr)
		}
	}
	if target, err := os.Readlink(link); err != nil || target != "file" {
		t.Errorf("the link was replaced: %q %v", target, err)
	}
	for _, name := range []string{dir, "/dev/null"} {
		if err := osfile.Replace(name, ".draft-*", 0o644, nil); !errors.Is(err, osfile.ErrKind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v %v", entries, err)
	}
}

// TestDraftError checks that an error names the folder, and not the draft.
func TestDraftError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	err := osfile.Replace(filepath.Join(dir, "page.html"), ".draft-*", 0o600, nil)
	if want := "create a file in " + dir + ": no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
