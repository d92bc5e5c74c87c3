package terminal

import (
	"bytes"
	"testing"
)

// TestPrintableRemovesControls checks that text from a mail cannot control the terminal.
func TestPrintableRemovesControls(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcödé 漢字 🙂\n\tindented": "plain, ünïcödé 漢字 🙂\n\tindented",
		"\x1b[31mred\x1b[0m":              "�[31mred�[0m",
		"over\rwritten\x00":               "over written�",
		"abc\u202edcb":                    "abc�dcb",
		"bad \xff byte":                   "bad � byte",
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestJSONIsSafe checks that JSON of foreign text cannot control the terminal.
func TestJSONIsSafe(t *testing.T) {
	foreign := map[string]string{"from": "\x9b2J\u009b2J\x7f \u202eevil\U000e0041"}
	for want, print := range map[string]func(*Output) error{
		"{\n  \"from\": \"\\ufffd2J\\u009b2J\\u007f \\u202eevil\\udb40\\udc41\"\n}\n": func(o *Output) error { return o.JSON(foreign) },
		"{\"from\":\"\\ufffd2J\\u009b2J\\u007f \\u202eevil\\udb40\\udc41\"}\n":        func(o *Output) error { return o.JSONLine(foreign) },
	} {
		var out bytes.Buffer
		if err := print(&Output{Stdout: &out}); err != nil || out.String() != want {
			t.Errorf("%q, %v, want %q", out.String(), err, want)
		}
	}
}

// TestPromptWraps checks that a question is wrapped at words, with the cursor behind it.
func TestPromptWraps(t *testing.T) {
	var out bytes.Buffer
	o := &Output{Stderr: &out, ErrColumns: func() int { return 30 }}
	o.Prompt("how it remembers: operator or thread [operator]: ")
	if want := "how it remembers: operator or\n  thread [operator]: "; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestWrappedWriter checks that lines of a story are wrapped below their text.
func TestWrappedWriter(t *testing.T) {
	var out bytes.Buffer
	o := &Output{Stdout: &out, Columns: func() int { return 30 }}
	line := "  09:12  IDLE  -> a mail from the operator\n"
	if n, err := o.Wrapped().Write([]byte(line)); n != len(line) || err != nil {
		t.Error(n, err)
	}
	if want := "  09:12  IDLE  -> a mail from\n               the operator\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
