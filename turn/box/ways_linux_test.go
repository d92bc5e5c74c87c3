package box_test

import (
	"bytes"
	"context"
	"os"
	"testing"

	"agentstateloop/turn/box"
)

// ways are the ways to make a sandbox, by name.
var ways = map[string]func(context.Context, string) (box.Way, error){"bubblewrap": box.Bubblewrap, "own": box.BuiltIn}

// inEachWay runs a test with each way that this machine has.
func inEachWay(t *testing.T, test func(t *testing.T, w box.Way)) {
	for name := range ways {
		t.Run(name, func(t *testing.T) { test(t, findWay(t, name)) })
	}
}

// findWay returns a way to make a sandbox, or skips the test.
func findWay(t *testing.T, name string) box.Way {
	t.Helper()
	w, err := ways[name](t.Context(), self(t))
	if err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return w
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a program in b and returns its output.
func run(t *testing.T, b box.Box, w box.Way, argv ...string) (string, error) {
	t.Helper()
	return runWith(t.Context(), b, w, argv...)
}

func runWith(ctx context.Context, b box.Box, w box.Way, argv ...string) (string, error) {
	var out bytes.Buffer
	err := b.Run(ctx, w, box.Program{
		Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Stdin: bytes.NewReader(nil), Stdout: &out, Stderr: &out,
	})
	return out.String(), err
}

// TestRunInGrantedFolder checks that a program reads, writes and moves files in its folder, and that
// its exit code and its output arrive.
func TestRunInGrantedFolder(t *testing.T) {
	inEachWay(t, func(t *testing.T, w box.Way) {
		dir := t.TempDir()
		b := box.Box{Self: self(t), Write: []string{dir}, Dir: dir}
		if out, err := run(t, b, w, "sh", "-c", "mkdir a b && echo text > a/file && mv a/file b/ && cat b/file; exit 7"); err == nil || err.Error() != "exit status 7" || out != "text\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
}
