package crontest_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/testkit/crontest"
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
	t.Run("the program", func(t *testing.T) { use(t, command, table, capture.Run) })
	t.Run("played", func(t *testing.T) {
		processes := 0
		play := crontest.Play(command, table)
		use(t, command, table, func(ctx context.Context, cmd *exec.Cmd, most capture.Limits) (capture.Printed, error) {
			printed, err := play(ctx, cmd, most)
			if cmd.Process != nil {
				processes++
			} else if strings.HasPrefix(string(printed.Stderr), "no crontab for ") {
				err = errors.New("as the program ends")
			}
			return printed, err
		})
		if processes != 4 { // what fails, and what removes the table
			t.Errorf("%d processes", processes)
		}
	})
}

// use tries each kind of call of a crontab program. It begins and ends without a table.
func use(t *testing.T, command, table string, run func(context.Context, *exec.Cmd, capture.Limits) (capture.Printed, error)) {
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
		stdin, err := os.Create(filepath.Join(t.TempDir(), "stdin"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stdin.WriteString(step.stdin); err != nil {
			t.Fatal(err)
		}
		if _, err := stdin.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), command, step.arg)
		cmd.Stdin = stdin
		got, err := run(t.Context(), cmd, capture.Limits{Stdout: 1 << 10, Stderr: 1 << 10})
		if string(got.Stdout) != step.want || (err != nil) != (step.fails != "") || !strings.Contains(string(got.Stderr), step.fails) {
			t.Errorf("crontab %s: %q, %v, %s; want %q, error %q", step.arg, got.Stdout, err, got.Stderr, step.want, step.fails)
		}
		stdin.Close()
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
