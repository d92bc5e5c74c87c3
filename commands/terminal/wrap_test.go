package terminal

import (
	"bytes"
	"strings"
	"testing"
)

// TestWrapLines checks where lines break on a narrow terminal.
func TestWrapLines(t *testing.T) {
	for _, c := range []struct {
		name, in string
		columns  int
		want     string
	}{
		{"no terminal", "one two three four five six\n", 0, "one two three four five six\n"},
		{"it fits", "one two three four five\n", 23, "one two three four five\n"},
		{"at words", "one two three four five\n", 22, "one two three four\nfive\n"},
		{"no line end", "one two three four five", 22, "one two three four\nfive"},
		{"several lines", "one two three four five\n\nsix\n", 22, "one two three four\nfive\n\nsix\n"},
		{"the indent stays", "  one two three four five\n", 22, "  one two three four\n  five\n"},
		{"a label", "subject: one two three four five\n", 26, "subject: one two three\n         four five\n"},
		{"a padded label", "key:   one two three four five\n", 22, "key:   one two three\n       four five\n"},
		{"a sentence with a colon", "The answers: one two three four\n", 26, "The answers: one two three\nfour\n"},
		{"columns", "error  imap  one two three four five\n", 30, "error  imap  one two three\n             four five\n"},
		{"a long word", "see /a/path/that/is/longer/than/any/line now\n", 22, "see\n/a/path/that/is/longer/than/any/line\nnow\n"},
		{"a word that fits with a smaller indent", "  one two three /a/path/of/18/chars\n", 20, "  one two three\n /a/path/of/18/chars\n"},
		{"a flag is one word", "one two three four --no-network\n", 24, "one two three four\n--no-network\n"},
		{"Chinese", "漢字漢字漢字漢字漢字漢字\n", 20, "漢字漢字漢字漢字漢字\n漢字\n"},
		{"accents of their own", "e\u0301e\u0301e\u0301 aaaaaaaaaaaaaaaa\n", 20, "e\u0301e\u0301e\u0301 aaaaaaaaaaaaaaaa\n"},
	} {
		if got := Wrap(c.in, c.columns); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTruncateByCells checks that a character may be wider than one cell.
func TestTruncateByCells(t *testing.T) {
	for _, c := range []struct {
		in    string
		cells int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"漢字漢字", 8, "漢字漢字"}, {"漢字漢字", 7, "漢字漢…"}, {"漢字漢字", 6, "漢字…"},
		{"👩‍👩‍👧 x", 2, "…"}, {"abc", 0, ""},
	} {
		if got := Truncate(c.in, c.cells); got != c.want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.in, c.cells, got, c.want)
		}
	}
}

// TestGridWidths checks a table on terminals of several widths.
func TestGridWidths(t *testing.T) {
	rows := [][]string{
		{"1", "15:04:05", "operator@example.com", "is the build green?", "waits for its turn"},
		{"12", "15:04:06", "漢字漢字", "", "waits until 15:30: cool-down after a failure"},
	}
	for columns, want := range map[int]string{
		0: `
1   15:04:05  operator@example.com  is the build green?  waits for its turn
12  15:04:06  漢字漢字                                   waits until 15:30: cool-down after a failure
`,
		80: `
1   15:04:05  operator@example.…  is the build gree…  waits for its turn
12  15:04:06  漢字漢字                                waits until 15:30:
                                                      cool-down after a failure
`,
		40: `
1   15:04:05  operator@ex…  is the buil…
    waits for its turn
12  15:04:06  漢字漢字
    waits until 15:30: cool-down after a
    failure
`,
	} {
		var out bytes.Buffer
		o := Output{Stdout: &out, Columns: func() int { return columns }}
		if err := o.Grid([]Column{{}, {}, {Least: 8}, {Least: 8}, {}}, rows); err != nil {
			t.Error(err)
		}
		if got := "\n" + out.String(); got != want {
			t.Errorf("%d columns:%s\nwant:%s", columns, got, want)
		}
	}
}

// TestPageIsFilledAgain checks that a help page is filled again on a narrow terminal.
func TestPageIsFilledAgain(t *testing.T) {
	const page = `program - does this

Prints the newest lines of the history, the oldest of them
first; in this order:
so it is.

Example:
  program --follow
  program --all

flags:
  --config FILE  the configuration; else that of
                 the user
  --help         show this
`
	for columns, want := range map[int]string{
		0: page, 80: page,
		40: `program - does this

Prints the newest lines of the history,
the oldest of them first; in this order:
so it is.

Example:
  program --follow
  program --all

flags:
  --config FILE  the configuration; else
                 that of the user
  --help         show this
`,
	} {
		var out bytes.Buffer
		o := Output{Stdout: &out, Columns: func() int { return columns }}
		p := o.Page()
		for part := range strings.SplitAfterSeq(page, " ") {
			p.Write([]byte(part))
		}
		if err := p.Flush(); err != nil || out.String() != want {
			t.Errorf("%d columns: %v\n%s\nwant\n%s", columns, err, out.String(), want)
		}
	}
}

// TestErrorsWrapWithIndent checks that the later lines of an error and a hint are indented.
func TestErrorsWrapWithIndent(t *testing.T) {
	var out bytes.Buffer
	o := Output{Stderr: &out, ErrColumns: func() int { return 40 }}
	o.Error("no configuration found: neither a nor b exists", "run init to create one")
	const want = `agentstateloop: error: no configuration
    found: neither a nor b exists
agentstateloop: hint: run init to create
    one
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

// TestRedactsBeforeItWraps checks that a secret with blanks is redacted before its line is wrapped:
// the two halves could not be redacted later.
func TestRedactsBeforeItWraps(t *testing.T) {
	var out, errs bytes.Buffer
	narrow := func() int { return 30 }
	o := Output{Stdout: &out, Stderr: &errs, Columns: narrow, ErrColumns: narrow, Redact: func(text string) string {
		return strings.ReplaceAll(text, "abcd efgh ijkl mnop", "***")
	}}
	o.Printf("the server says: abcd efgh ijkl mnop is wrong\n")
	o.Error("the server says abcd efgh ijkl mnop", "do not use abcd efgh ijkl mnop")
	if err := o.Grid([]Column{{}, {Least: 4}, {}}, [][]string{{"1", "abcd efgh ijkl mnop", "abcd efgh ijkl mnop, says the server"}}); err != nil {
		t.Error(err)
	}
	out.WriteString(o.Fit("  the server says: abcd efgh ijkl mnop is wrong", 2))
	if all := out.String() + errs.String(); strings.Contains(all, "abcd") || strings.Contains(all, "mnop") || strings.Count(all, "***") != 6 {
		t.Errorf("a half of the secret is shown:\n%s", all)
	}
}
