package turn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClearContext checks that files with another copy are removed from the context folder, and that
// a link in its place is not followed.
func TestClearContext(t *testing.T) {
	dir := filepath.Join(removableDir(t), "t1", "1")
	err := Prepare(dir, []File{
		{"system.md", strings.NewReader("you are")}, {"message.eml", strings.NewReader("From: x")},
		{"attachments/1.pdf", strings.NewReader("%PDF")}, {"earlier/1/text.txt", strings.NewReader("before")},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ClearContext(dir, "system.md", "history.txt")
		entries, err := os.ReadDir(filepath.Join(dir, "context"))
		if err != nil || len(entries) != 1 || readFile(t, dir, "context", "system.md") != "you are" {
			t.Errorf("%v, %v", entries, err)
		}
	}

	elsewhere := removableDir(t)
	if err := os.WriteFile(filepath.Join(elsewhere, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(removableDir(t), "t1", "1")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(other, "context")); err != nil {
		t.Fatal(err)
	}
	ClearContext(other)
	ClearContext(filepath.Join(other, "gone"))
	if _, err := os.Stat(filepath.Join(elsewhere, "mine")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

// TestClearedAttemptIsWritable checks that all folders of an attempt are 0700 after its end: the
// context folder, and those that the agent made read-only or unreadable, but none behind a link.
func TestClearedAttemptIsWritable(t *testing.T) {
	elsewhere := removableDir(t)
	if err := os.Chmod(elsewhere, 0o500); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(dir string){
		"ended":            func(dir string) { ClearContext(dir, "system.md") },
		"left by a crash":  MakeWritable,
		"without context/": func(dir string) { os.Remove(filepath.Join(dir, "context", "system.md")); ClearContext(dir) },
	} {
		dir := filepath.Join(removableDir(t), "t1", "1")
		check(t, Prepare(dir, []File{{"system.md", strings.NewReader("x")}, {"attachments/1.pdf", strings.NewReader("%PDF")}}, ""))
		check(t, os.MkdirAll(filepath.Join(dir, "output", "a", "b"), 0o700))
		check(t, os.Symlink(elsewhere, filepath.Join(dir, "output", "link")))
		for folder, mode := range map[string]os.FileMode{"output/a/b": 0, "output/a": 0o500, "output": 0o555, ".": 0o500} {
			check(t, os.Chmod(filepath.Join(dir, folder), mode))
		}
		end(dir)
		folders := 0
		check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			info, err := d.Info()
			if folders++; err == nil && info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %s has mode %04o", name, path, info.Mode().Perm())
			}
			return err
		}))
		if folders < 5 {
			t.Errorf("%s: %d folders were checked", name, folders)
		}
	}
	if info, err := os.Stat(elsewhere); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("the folder behind a link has mode %v, %v", info.Mode(), err)
	}
}

// TestHeldAttemptStaysReadOnly checks that the context folder of a living agent stays read-only.
func TestHeldAttemptStaysReadOnly(t *testing.T) {
	dir := filepath.Join(removableDir(t), "t1", "1")
	check(t, Prepare(dir, nil, ""))
	lock, err := os.OpenFile(filepath.Join(dir, aliveName), os.O_RDWR|os.O_CREATE, 0o600)
	check(t, err)
	defer lock.Close()
	check(t, flock(lock, unix.LOCK_EX))
	MakeWritable(dir)
	if info, err := os.Stat(filepath.Join(dir, "context")); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("context/ of a living agent: %v, %v", info.Mode(), err)
	}
	check(t, flock(lock, unix.LOCK_UN))
	MakeWritable(dir)
	if info, err := os.Stat(filepath.Join(dir, "context")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("context/ of a dead agent: %v, %v", info.Mode(), err)
	}
}

// TestDropEarlier checks that the newest output folder with files stays, and small ones, so that the
// next attempt begins with the same files.
func TestDropEarlier(t *testing.T) {
	large := strings.Repeat("x", maxEvidence+1)
	for name, c := range map[string]struct {
		left []string // by the attempts 1, 2, …; the last is the one that has ended
		want []int    // the attempts whose output folders stay
	}{
		"the last has files":      {[]string{large, large, "new"}, []int{3}},
		"the last has none":       {[]string{large, large, ""}, []int{2, 3}},
		"only the first has any":  {[]string{large, "", ""}, []int{1, 2, 3}},
		"a small one stays":       {[]string{"small", large, "new"}, []int{1, 3}},
		"the first is the last":   {[]string{large}, []int{1}},
		"a later attempt is kept": {[]string{large, "new", large}, []int{2, 3}},
	} {
		turnDir := filepath.Join(removableDir(t), "t1")
		for i, text := range c.left {
			dir := filepath.Join(turnDir, string(rune('1'+i)))
			if err := Prepare(dir, nil, ""); err != nil {
				t.Fatal(err)
			}
			if text != "" {
				if err := os.WriteFile(filepath.Join(dir, "output", "f"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		last := len(c.left)
		if name == "a later attempt is kept" {
			last-- // an attempt that lost its turn ends late
		}
		dir := filepath.Join(turnDir, string(rune('0'+last)))
		own, _, err := ListOutput(dir)
		if err != nil {
			t.Fatal(err)
		}
		next := filepath.Join(turnDir, "9")
		before := EarlierOutput(next)
		DropEarlier(dir, own)
		var stay []int
		for i := range c.left {
			if _, err := os.Stat(filepath.Join(turnDir, string(rune('1'+i)), "output")); err == nil {
				stay = append(stay, i+1)
			}
		}
		if !slices.Equal(stay, c.want) {
			t.Errorf("%s: the output folders of %v stay, want %v", name, stay, c.want)
		}
		if after := EarlierOutput(next); after != before {
			t.Errorf("%s: the next attempt begins with %q, want %q", name, after, before)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
