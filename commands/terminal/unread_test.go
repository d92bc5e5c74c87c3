package terminal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"agentstateloop/commands/terminal"
)

// TestUnreadPipe checks that only a pipe whose reader has ended is unread.
func TestUnreadPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if terminal.Unread(w) || terminal.Unread(file) || terminal.Unread(new(bytes.Buffer)) {
		t.Error("a reader, a file or a buffer counts as gone")
	}
	r.Close()
	if !terminal.Unread(w) {
		t.Error("a pipe without a reader counts as read")
	}
}
