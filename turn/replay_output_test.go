package turn

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReplayOutputOfRealAttempt checks that the folder of an attempt has its output, as if its runner
// had died before it returned.
func TestReplayOutputOfRealAttempt(t *testing.T) {
	b := newFixture(t, `printf 'first \342\202'; printf '\254\n'; echo "  second"; exit 3`)
	res := b.run()
	if got := ReplayOutput(b.Dir); got != res.Text || got != "first €\n  second" {
		t.Errorf("%q, the result has %q", got, res.Text)
	}
}

func TestReplayOutputOfStream(t *testing.T) {
	const start = `{"kind":"start","runner":"claude"}`
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"pieces":            {[]string{start, `{"kind":"text_delta","text":"one"}`, `{"kind":"tool_use","tool":"ls"}`, `{"kind":"text_delta","text":"two"}`}, "one\n\ntwo"},
		"an answer":         {[]string{start, `{"kind":"text_delta","text":"one"}`, `{"kind":"done","text":"all of it"}`}, "all of it"},
		"went on after it":  {[]string{start, `{"kind":"text_delta","text":"one"}`, `{"kind":"done","text":"all"}`, `{"kind":"text_delta","text":"two"}`}, "one\n\ntwo"},
		"a failure":         {[]string{start, `{"kind":"text_delta","text":"one"}`, `{"kind":"done","text":"why","failed":true}`}, "one"},
		"a torn line":       {[]string{start, `{"kind":"text_delta","text":"one"}`, `{"kind":"text_del`}, "one"},
		"foreign lines":     {[]string{"hello", `[1]`, `{"kind":7}`, `{"kind":"text_delta","text":"one"}`}, "one"},
		"a line of 5 MiB":   {[]string{start, `{"kind":"text_delta","text":"` + strings.Repeat("x", 5<<20) + `"}`, `{"kind":"text_delta","text":"one"}`}, "one"},
		"nothing":           {[]string{start, `{"kind":"end"}`}, ""},
		"an unknown runner": {[]string{`{"kind":"start","runner":"x"}`, `{"kind":"text_delta","text":"one"}`}, "one"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, eventsName), []byte(strings.Join(c.lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := ReplayOutput(dir); got != c.want {
				t.Errorf("%.80q, want %q", got, c.want)
			}
		})
	}
}

// TestReplayOutputIsBounded checks that a replay of much output returns the maximum.
func TestReplayOutputIsBounded(t *testing.T) {
	dir := t.TempDir()
	line := `{"kind":"text_delta","text":"` + strings.Repeat("y", 60<<10) + "\"}\n"
	if err := os.WriteFile(filepath.Join(dir, eventsName), []byte(strings.Repeat(line, 400)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ReplayOutput(dir); len(got) != DefaultMaxText {
		t.Errorf("%d bytes, want %d", len(got), DefaultMaxText)
	}
}

// TestReplayOutputNotAFile checks that no kind of file in the folder of the agent blocks a replay.
func TestReplayOutputNotAFile(t *testing.T) {
	for name, put := range map[string]func(file string) error{
		"nothing":  func(string) error { return nil },
		"a fifo":   func(file string) error { return syscall.Mkfifo(file, 0o600) },
		"a folder": func(file string) error { return os.Mkdir(file, 0o700) },
		"a link":   func(file string) error { return os.Symlink("/dev/zero", file) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := put(filepath.Join(dir, eventsName)); err != nil {
				t.Fatal(err)
			}
			if got := ReplayOutput(dir); got != "" {
				t.Errorf("%q", got)
			}
		})
	}
}
