package message

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/plain"
)

func TestReplyText(t *testing.T) {
	files, err := filepath.Glob("testdata/reply_text/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		in, want, ok := strings.Cut(string(raw), "\n=====\n")
		if !ok {
			t.Fatalf("%s: no ===== line", file)
		}
		if got := ReplyText(in); got != strings.TrimSpace(want) {
			t.Errorf("%s:\n--- got\n%s\n--- want\n%s", file, got, want)
		}
	}
}

// The cost of reading a mail grows with its length, not with the square of it.
// Otherwise half a million short lines would take hours, and the test would not
// end.
func TestReplyTextOfManyLines(t *testing.T) {
	lines := 500_000
	if raced {
		lines /= 50
	}
	for _, line := range []string{"x\n", "\n", "> x\n", "____________________\n", "On x wrote:\n", "From: x\n"} {
		ReplyText(strings.Repeat(line, lines))
	}
}

// ReplyText only leaves lines out.
func FuzzReplyText(f *testing.F) {
	f.Add("yes\n\nOn Monday, Ann wrote:\n> really?\n")
	f.Add("ja\n\nAm 5.1. schrieb\nOp <o@x>:\n\n> hm\n-- \nOp")
	f.Add("x\n________________________________\nFrom: a\nSent: b\n")
	f.Fuzz(func(t *testing.T, in string) {
		rest := strings.Split(plain.Text(in), "\n")
		for i, line := range strings.Split(ReplyText(in), "\n") {
			for line != "" && len(rest) > 0 && strings.TrimSpace(rest[0]) != strings.TrimSpace(line) {
				rest = rest[1:]
			}
			if line != "" && len(rest) == 0 {
				t.Fatalf("line %d, %q, was not there", i, line)
			}
		}
	})
}
