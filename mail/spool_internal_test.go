package mail

import (
	"io"
	"os"
	"strings"
	"testing"
)

// TestSpoolHasNoName checks that a killed process leaves no temporary file: the file of a spool has
// no name while it is open.
func TestSpoolHasNoName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, err := newSpool(strings.NewReader("a mail"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("files of an open spool: %v, %v", names, err)
	}
	for range 2 {
		r, err := s.fromStart()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != "a mail" {
			t.Errorf("read %q, %v", got, err)
		}
	}
}

// TestSpoolOfBrokenMail checks that a mail that cannot be read to its end is an error, and leaves no
// file.
func TestSpoolOfBrokenMail(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	broken := io.MultiReader(strings.NewReader("a ma"), brokenReader{})
	if _, err := newSpool(broken); err != io.ErrUnexpectedEOF {
		t.Errorf("got %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("files: %v, %v", names, err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
