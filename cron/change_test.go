package cron

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, tt := range []struct{ name, before, after, want string }{
		{"nothing", "a\n", "a\n", ""},
		{"the first line of a table", "", "x\n", "@@ -0,0 +1,1 @@\n+x\n"},
		{"appended", "1\n2\n3\n", "1\n2\n3\nx\n", "@@ -2,2 +2,3 @@\n 2\n 3\n+x\n"},
		{"replaced", "1\n2\n3\nold\n4\n5\n6\n", "1\n2\n3\nnew\n4\n5\n6\n", "@@ -2,5 +2,5 @@\n 2\n 3\n-old\n+new\n 4\n 5\n"},
		{"removed", "old\n1\n", "1\n", "@@ -1,2 +1,1 @@\n-old\n 1\n"},
		{"the last line of a table", "old\n", "", "@@ -1,1 +0,0 @@\n-old\n"},
		{"two, far apart", "old\n1\n2\n3\n4\n5\nold\n", "new\n1\n2\n3\n4\n5\n", "@@ -1,3 +1,3 @@\n-old\n+new\n 1\n 2\n@@ -5,3 +5,2 @@\n 4\n 5\n-old\n"},
		{"two, near", "old\n1\n2\n3\n4\nold\n", "new\n1\n2\n3\n4\n", "@@ -1,6 +1,5 @@\n-old\n+new\n 1\n 2\n 3\n 4\n-old\n"},
		{"no final newline", "1", "1\nx\n", "@@ -1,1 +1,2 @@\n-1\n\\ No newline at end of file\n+1\n+x\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want != "" {
				want = "--- crontab, installed\n+++ crontab, wanted\n" + want
			}
			if got := (Change{Before: []byte(tt.before), After: []byte(tt.after)}).Diff(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// For any two tables, the kept and removed lines are the old table, and the kept
// and added lines the new one.
func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc\n", "c\na\nb")
	f.Add("", "x\nx\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		var old, now strings.Builder
		for _, line := range diffLines([]byte(before), []byte(after)) {
			if line.sign != '+' {
				old.Write(line.text)
			}
			if line.sign != '-' {
				now.Write(line.text)
			}
		}
		if old.String() != before || now.String() != after {
			t.Errorf("the diff of %q and %q has %q and %q", before, after, old.String(), now.String())
		}
		if got := (Change{Before: []byte(before), After: []byte(after)}).Diff(); (got == "") != (before == after) {
			t.Errorf("Diff of %q and %q is %q", before, after, got)
		}
	})
}
