package terminal

import (
	"bytes"
	"strings"
	"testing"
)

// TestScreenWritesOnce checks that a screen shows each text in one write, from the first line
// on, erases the text before it, and does not scroll.
func TestScreenWritesOnce(t *testing.T) {
	var writes []string
	columns, rows := 20, 4
	o := &Output{Stdout: writerFunc(func(p []byte) { writes = append(writes, string(p)) }), Columns: func() int { return columns }, Rows: func() int { return rows }}
	s, ok := o.Screen("xterm")
	if !ok {
		t.Fatal("a terminal has no screen")
	}
	show := func(text string) string {
		writes = nil
		if err := s.Show(text); err != nil || len(writes) != 1 {
			t.Errorf("%d writes, %v", len(writes), err)
		}
		return writes[0]
	}
	const clear = clearLine
	for _, c := range []struct{ name, text, want string }{
		{"the first", "one\ntwo\n", enterScreen + cursorHome + clearBelow + cursorHome + "one" + clear + "\r\ntwo" + clear + "\r\n" + clearBelow},
		{"a shorter one", "one\n", cursorHome + "one" + clear + "\r\n" + clearBelow},
		{"as tall as the screen", "1\n2\n3\n4\n", cursorHome + "1" + clear + "\r\n2" + clear + "\r\n3" + clear + "\r\n4" + clear},
		{"too tall", "1\n2\n3\n4\n5\n", cursorHome + "1" + clear + "\r\n2" + clear + "\r\n3" + clear + "\r\n… 2 lines more" + clear},
		{"as wide as the screen", strings.Repeat("x", 20) + "\n", cursorHome + strings.Repeat("x", 20) + "\r\n" + clearBelow},
		{"a word that is too long", strings.Repeat("漢", 15), cursorHome + strings.Repeat("漢", 10) + "\r\n" + strings.Repeat("漢", 5) + clear + "\r\n" + clearBelow},
	} {
		if got := show(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	writes = nil
	s.Close()
	s.Close()
	if len(writes) != 1 || writes[0] != leaveScreen {
		t.Errorf("at the end %q", writes)
	}
	if got := show("again"); !strings.HasPrefix(got, enterScreen) {
		t.Errorf("after Close: %q", got)
	}
}

// TestScreenNeedsTerminal checks that only a terminal that can move its cursor has a screen.
func TestScreenNeedsTerminal(t *testing.T) {
	at := func(n int) func() int { return func() int { return n } }
	for _, c := range []struct {
		kind          string
		columns, rows func() int
	}{{"dumb", at(80), at(24)}, {"", at(80), at(24)}, {"xterm", at(0), at(24)}, {"xterm", at(80), at(0)}, {"xterm", nil, nil}} {
		var out bytes.Buffer
		if _, ok := (&Output{Stdout: &out, Columns: c.columns, Rows: c.rows}).Screen(c.kind); ok {
			t.Errorf("%q has a screen", c.kind)
		}
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
