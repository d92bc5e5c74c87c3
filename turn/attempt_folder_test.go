package turn

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPrepare(t *testing.T) {
	before := filepath.Join(removableDir(t), "output")
	if err := os.MkdirAll(filepath.Join(before, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(before, "sub", "draft.txt"), []byte("half"), 0o644)
	os.Symlink("/etc/passwd", filepath.Join(before, "link"))

	dir := filepath.Join(removableDir(t), "turns", "t1", "2")
	err := Prepare(dir, []File{
		{"message.txt", strings.NewReader("hello")},
		{"attachments/1.pdf", strings.NewReader("%PDF")},
	}, before)
	if err != nil {
		t.Fatal(err)
	}
	if readFile(t, dir, "context", "message.txt") != "hello" || readFile(t, dir, "context", "attachments", "1.pdf") != "%PDF" {
		t.Error("context")
	}
	names, notes, err := ListOutput(dir)
	if !slices.Equal(names, []string{"sub/draft.txt"}) || len(notes) != 0 || err != nil {
		t.Errorf("carried %q %q %v", names, notes, err)
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v %v", path, info.Mode(), err)
		}
		if strings.Contains(path, "context") && info.Mode().Perm()&0o222 != 0 {
			t.Errorf("%s can be written: %v", path, info.Mode())
		}
		return nil
	})

	// An attempt that was prepared and never started, as after a crash, is prepared again.
	if err := Prepare(dir, nil, filepath.Join(removableDir(t), "gone")); err != nil {
		t.Fatal(err)
	}
	if names, _, _ := ListOutput(dir); len(names) != 0 {
		t.Errorf("left over %q", names)
	}
}

func TestPrepareRefusesNames(t *testing.T) {
	for _, name := range []string{"../out", "/etc/x", "a/../../b", ""} {
		if err := Prepare(filepath.Join(removableDir(t), "t"), []File{{name, strings.NewReader("")}}, ""); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

// TestEarlierOutput checks that the newest earlier attempt that left a file counts.
func TestEarlierOutput(t *testing.T) {
	turns := t.TempDir()
	for epoch, file := range map[string]string{"2": "two", "9": "nine", "10": "", "12": "own", "14": "later"} {
		output := filepath.Join(turns, epoch, "output")
		if err := os.MkdirAll(output, 0o700); err != nil {
			t.Fatal(err)
		}
		if file != "" {
			os.WriteFile(filepath.Join(output, file), nil, 0o600)
		}
	}
	os.Mkdir(filepath.Join(turns, "x"), 0o700)
	if got := EarlierOutput(filepath.Join(turns, "12")); got != filepath.Join(turns, "9", "output") {
		t.Errorf("got %q", got)
	}
	if got := EarlierOutput(filepath.Join(turns, "2")); got != "" {
		t.Errorf("got %q", got)
	}
}
