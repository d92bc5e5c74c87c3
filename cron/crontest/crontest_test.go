package crontest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/cron/crontest"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	command, table, err := crontest.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ arg, stdin, want, fails string }{
		{"-l", "", "", "no crontab for "},
		{"-r", "", "", "No such file"},
		{"-", "a \\ \xe9\n\n\t%s\n", "", ""},
		{"-l", "", "a \\ \xe9\n\n\t%s\n", ""},
		{"-", "no newline", "", "missing newline"},
		{"-l", "", "a \\ \xe9\n\n\t%s\n", ""},
		{"-", "", "", ""},
		{"-l", "", "", ""},
		{"-r", "", "", ""},
		{"-l", "", "", "no crontab for "},
		{"-e", "", "", "usage"},
	} {
		cmd := exec.Command(command, step.arg)
		var stderr strings.Builder
		cmd.Stdin, cmd.Stderr = strings.NewReader(step.stdin), &stderr
		out, err := cmd.Output()
		if string(out) != step.want || (err != nil) != (step.fails != "") || !strings.Contains(stderr.String(), step.fails) {
			t.Errorf("crontab %s: %q, %v, %s; want %q, error %q", step.arg, out, err, stderr.String(), step.want, step.fails)
		}
	}
	if left, err := filepath.Glob(table + "*"); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWriteNowhere(t *testing.T) {
	if _, _, err := crontest.Write(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("no error")
	}
}
