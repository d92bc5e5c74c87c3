package terminal

import "testing"

// TestText checks that text from a mail cannot control the terminal.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcödé 漢字 🙂\n\tindented": "plain, ünïcödé 漢字 🙂\n\tindented",
		"\x1b[31mred\x1b[0m":              "�[31mred�[0m",
		"over\rwritten\x00":               "over written�",
		"abc\u202edcb":                    "abc�dcb",
		"bad \xff byte":                   "bad � byte",
	} {
		if got := Printable(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}
