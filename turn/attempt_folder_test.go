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
	if read(t, dir, "context", "message.txt") != "hello" || read(t, dir, "context", "attachments", "1.pdf") != "%PDF" {
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

	// Prepared and never started, because a crash came between: it is made again.
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
			t.Errorf("%q was taken", name)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	dir := filepath.Join(removableDir(t), "t")
	if err := Prepare(dir, nil, ""); err != nil {
		t.Fatal(err)
	}
	for i := range maxOutputFiles + 5 {
		name := strings.Repeat("x", 1+i%200) + strings.Repeat("y", 1+i/200)
		if err := os.WriteFile(filepath.Join(dir, "output", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, notes, err := ListOutput(dir)
	if len(names) != maxOutputFiles || len(notes) != 1 || err != nil {
		t.Errorf("%d names, notes %q, %v", len(names), notes, err)
	}
}

// Of a sandbox that was made to be endless only so much is looked at.
func TestHugeOutputFolderIsBounded(t *testing.T) {
	dir := filepath.Join(removableDir(t), "1")
	if err := Prepare(dir, nil, ""); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(dir, "output")
	for range maxOutputDepth + 2 {
		deep = filepath.Join(deep, "d")
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(deep, "file"), nil, 0o600)
	names, notes, err := ListOutput(dir)
	if len(names) != 0 || len(notes) != 1 || !strings.Contains(notes[0], "folders deep") || err != nil {
		t.Errorf("%q %q %v", names, notes, err)
	}
}

// The newest earlier attempt that left a file counts. One that died at once left none.
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
