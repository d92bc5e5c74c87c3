package cron

import (
	"testing"
)

func TestDiff(t *testing.T) {
	for _, tt := range []struct{ name, before, after, want string }{
		{"unchanged", "a\n", "a\n", ""},
		{"the first line of a table", "", "x\n", "@@ -0,0 +1,1 @@\n+x\n"},
		{"appended", "1\n2\n3\n4\n", "1\n2\n3\n4\nx\n", "@@ -2,3 +2,4 @@\n 2\n 3\n 4\n+x\n"},
		{"removed", "old\n1\n", "1\n", "@@ -1,2 +1,1 @@\n-old\n 1\n"},
		{"the last line of a table", "old\n", "", "@@ -1,1 +0,0 @@\n-old\n"},
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
