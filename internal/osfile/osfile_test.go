package osfile_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"agentstateloop/internal/osfile"
)

// obstacles are functions that put something else in the place of a file, by its words in errors. One is
// a link to canary.
func obstacles(t *testing.T, canary string) map[string]func(path string) error {
	all := map[string]func(path string) error{
		"it is a folder":                      func(path string) error { return os.Mkdir(path, 0o700) },
		"it is a named pipe":                  func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"it is a link to \"" + canary + "\"":  func(path string) error { return os.Symlink(canary, path) },
		"it is a link to \"/does/not/exist\"": func(path string) error { return os.Symlink("/does/not/exist", path) },
		"it is a link to \"file\"":            func(path string) error { return os.Symlink("file", path) }, // itself
		"it is a socket": func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
	}
	if os.Getuid() == 0 {
		const zero = 1<<8 | 5 // the device number of /dev/zero
		all["it is a device"] = func(path string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o600, zero) }
	}
	return all
}

// TestOnlyRegularFiles puts each obstacle in the place of a file, and checks that each way to open it
// returns an error that names the obstacle.
func TestOnlyRegularFiles(t *testing.T) {
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(canary, []byte("unchanged"), 0o600); err != nil {
		t.Fatal(err)
	}
	opens := map[string]func(path string) error{
		"Open":       func(path string) error { return closed(osfile.Open(path)) },
		"OpenAppend": func(path string) error { return closed(osfile.OpenAppend(path, 0o600)) },
		"OpenFile for writing": func(path string) error {
			return closed(osfile.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600))
		},
		"ReadFile": func(path string) error { _, err := osfile.ReadFile(path, 100); return err },
		"Lock":     func(path string) error { _, err := osfile.Lock(path); return err },
	}
	for words, put := range obstacles(t, canary) {
		t.Run(words, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := put(path); err != nil {
				t.Skip(err) // a container may not make devices
			}
			for name, open := range opens {
				err := open(path)
				if !errors.Is(err, osfile.ErrKind) || !strings.Contains(err.Error(), path+": "+words+", not a regular file") {
					t.Errorf("%s: %v; want an error with %s and %q", name, err, path, words)
				}
			}
			if err := osfile.Folder(path); (err == nil) != (words == "it is a folder") {
				t.Errorf("Folder: %v", err)
			}
		})
	}
	if text, err := os.ReadFile(canary); string(text) != "unchanged" {
		t.Errorf("the target of the link is %q: %v", text, err)
	}
}

func closed(f *os.File, err error) error {
	if err != nil {
		return err
	}
	return f.Close()
}

func TestOpensRegularFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := osfile.Open(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, text := range []string{"one\n", "two\n"} {
		f, err := osfile.OpenAppend(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if text, err := osfile.ReadFile(path, 8); string(text) != "one\ntwo\n" || err != nil {
		t.Errorf("ReadFile: %q, %v", text, err)
	}
	_, err := osfile.ReadFile(path, 7)
	if !errors.Is(err, osfile.ErrTooLarge) || !strings.Contains(err.Error(), path+": too large: 8 bytes, the limit is 7") {
		t.Errorf("a file of 8 bytes, limit 7: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestLinkInPath checks that no folder on the way to a file may be a link, except for the first.
func TestLinkInPath(t *testing.T) {
	elsewhere, dir := t.TempDir(), filepath.Join(t.TempDir(), "dir")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(elsewhere, "a", "b"), 0o700),
		os.Symlink(elsewhere, dir),
		os.Symlink(elsewhere, filepath.Join(elsewhere, "a", "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, bad := range map[string]string{
		"file":          "",
		"a/b/file":      "",
		"a/b":           "",
		"a/no/such/b":   "",
		"a/link":        "", // the file itself is checked when it is opened
		"a/link/file":   "a/link",
		"a/link/a/file": "a/link",
	} {
		err := osfile.Folders(dir, name)
		if bad == "" && err != nil || bad != "" && (!errors.Is(err, osfile.ErrKind) || !strings.Contains(err.Error(), filepath.Join(dir, bad)+": it is a link to ")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLongAndTornLines checks that each whole line comes, and of a line that is too long only the
// newline.
func TestLongAndTornLines(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for text, want := range map[string][]string{
		"":                           nil,
		"a\nb\n\ntorn":               {"a\n", "b\n", "\n"},
		"a\n" + long + "\nb\n":       {"a\n", long + "\n", "b\n"},
		"a\n" + long + "xxx\nb\n":    {"a\n", "\n", "b\n"},
		long + long + long + "\nb\n": {"\n", "b\n"},
		long + long:                  nil,
	} {
		var got []string
		for line, err := range osfile.Lines(strings.NewReader(text), len(long)+1) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d bytes: %d lines, not %d", len(text), len(got), len(want))
		}
	}
	broken := errors.New("broken")
	for line, err := range osfile.Lines(io.MultiReader(strings.NewReader("torn"), iotest.ErrReader(broken)), 100) {
		if err != broken {
			t.Errorf("%q, %v", line, err)
		}
	}
}

func TestMakeWritable(t *testing.T) {
	outside, box := t.TempDir(), filepath.Join(t.TempDir(), "box")
	a, b := filepath.Join(box, "a"), filepath.Join(box, "a", "b")
	file := filepath.Join(b, "file")
	if err := errors.Join(os.MkdirAll(b, 0o700), os.WriteFile(file, nil, 0o400), os.Symlink(outside, filepath.Join(a, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{b, a, box, outside} {
		if err := os.Chmod(d, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	osfile.MakeWritable(box)
	for name, want := range map[string]os.FileMode{box: 0o700, a: 0o700, b: 0o700, outside: 0o500, file: 0o400} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	for range 2 { // the second time without a folder
		if err := osfile.RemoveAll(box); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Lstat(outside); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Chmod(outside, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestMkdirAll(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	for range 2 { // the second time with the folder
		if err := osfile.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := osfile.MkdirAll(filepath.Join(root, "file", "c")); err == nil {
		t.Error("a folder was made in a file")
	}
	if err := osfile.SyncDir(filepath.Join(root, "missing")); err == nil {
		t.Error("a missing folder was fsynced")
	}
}
