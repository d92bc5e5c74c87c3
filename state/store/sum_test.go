package store_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentstateloop/state/store"
)

// A file is read exactly as it was kept, or the read fails.
func TestChangedFileIsNotRead(t *testing.T) {
	const text = "To: operator@example.com\r\n\r\nhello\r\n"
	for name, damage := range map[string]func(path string) error{
		"zeroed":   func(path string) error { return os.WriteFile(path, make([]byte, len(text)), 0o600) },
		"empty":    func(path string) error { return os.Truncate(path, 0) },
		"short":    func(path string) error { return os.Truncate(path, 30) },
		"longer":   func(path string) error { return os.WriteFile(path, []byte(text+"\n"), 0o600) },
		"one bit":  func(path string) error { return os.WriteFile(path, []byte(strings.Replace(text, "o", "n", 1)), 0o600) },
		"missing":  os.Remove,
		"a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"a pipe":   func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"huge":     func(path string) error { return os.Truncate(path, 1<<40) },
		"a link to it": func(path string) error {
			return errors.Join(os.Rename(path, path+".away"), os.Symlink(path+".away", path))
		},
		"a linked room":  linkFolder,
		"a missing room": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			st := &store.Store{Dir: t.TempDir(), Agent: "a"}
			sum, err := st.KeepSummed("outbox/one", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			got, err := st.ReadSummed("outbox/one", sum)
			if err != nil || string(got) != text || sum != store.Sum(got) {
				t.Fatalf("whole: %q, %v", got, err)
			}
			f, err := st.OpenSummed("outbox/one", sum, int64(len(text)))
			if err != nil {
				t.Fatal(err)
			}
			if data, err := io.ReadAll(f); string(data) != text || err != nil {
				t.Fatalf("opened: %q, %v", data, err)
			}
			f.Close()
			if err := damage(st.Path("outbox/one")); err != nil {
				t.Fatal(err)
			}
			if f, err := st.OpenSummed("outbox/one", sum, int64(len(text))); !errors.Is(err, store.ErrDamaged) || f != nil {
				t.Errorf("opened: %v, %v", f, err)
			}
			got, err = st.ReadSummed("outbox/one", sum)
			if !errors.Is(err, store.ErrDamaged) || got != nil {
				t.Errorf("damaged: %q, %v", got, err)
			}
			if missing := strings.Contains(name, "missing"); errors.Is(err, fs.ErrNotExist) != missing {
				t.Errorf("missing or not: %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "outbox/one") {
				t.Errorf("the error does not name the file: %v", err)
			}
		})
	}
}

// linkFolder puts a link in the place of the folder of a file.
func linkFolder(path string) error {
	dir := filepath.Dir(path)
	return errors.Join(os.Rename(dir, dir+".away"), os.Symlink(dir+".away", dir))
}

// Rows of older versions have no checksum, so any bytes are accepted.
func TestFileWithoutSumIsRead(t *testing.T) {
	st := &store.Store{Dir: t.TempDir(), Agent: "a"}
	if err := st.Keep("messages/one", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if got, err := st.ReadSummed("messages/one", ""); string(got) != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
