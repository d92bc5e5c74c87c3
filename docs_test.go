package main_test

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// text is one text file of the repository.
type text struct{ name, body string }

// texts returns the text files of the repository, testdata included.
func texts(t *testing.T) []text {
	t.Helper()
	var all []text
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && name != ".ci" && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		body, err := os.ReadFile(name)
		if err == nil && !bytes.Contains(body, []byte{0}) {
			all = append(all, text{name, string(body)})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
)

// headings returns the headings of a document, in order.
func headings(f text) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(f.body, ""), -1) {
		all = append(all, m[1])
	}
	return all
}

var (
	// citation is the form in which the design is cited; a comment may wrap in it.
	citation = regexp.MustCompile(`docs/design\.md((?:,? (?:and )?"[^"]+"(?: \d+)?)+)`)
	quoted   = regexp.MustCompile(`"([^"]+)"`)
	wrap     = regexp.MustCompile(`\s*\n[ \t]*(?://|#|\*)?[ \t]*`)
)

// TestTheDesignIsCitedByHeading checks that docs/design.md has each heading that
// some text cites, and has it once.
func TestTheDesignIsCitedByHeading(t *testing.T) {
	design, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	known := headings(text{"docs/design.md", string(design)})
	for i, h := range known {
		if slices.Contains(known[:i], h) {
			t.Errorf("docs/design.md has the heading %q twice: a citation must be clear", h)
		}
	}
	cited := 0
	for _, f := range texts(t) {
		unwrapped := wrap.ReplaceAllString(f.body, " ")
		for _, c := range citation.FindAllStringSubmatch(unwrapped, -1) {
			for _, h := range quoted.FindAllStringSubmatch(c[1], -1) {
				cited++
				if !slices.Contains(known, h[1]) {
					t.Errorf("%s cites docs/design.md, %q: the design does not have this heading", f.name, h[1])
				}
			}
		}
	}
	if cited < 2 {
		t.Error("nothing cites the design: does the pattern still find the citations?")
	}
}

// number is how the design was cited when it was not in the repository.
var number = regexp.MustCompile(`\bDESIGN[ ,]+[0-9]`)

// TestTheDesignIsNotCitedByNumber lists the citations that name no heading.
func TestTheDesignIsNotCitedByNumber(t *testing.T) {
	for _, f := range texts(t) {
		for _, m := range number.FindAllStringIndex(wrap.ReplaceAllStringFunc(f.body, blanks), -1) {
			t.Errorf("%s:%d: cite a heading of docs/design.md", f.name, f.line(m[0]))
		}
	}
}

// blanks returns as many spaces as s has bytes, so that offsets stay.
func blanks(s string) string { return strings.Repeat(" ", len(s)) }
