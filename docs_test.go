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
	// citation is the form in which a heading is cited; a comment may wrap in it.
	citation = regexp.MustCompile(`docs/(design|protocol)\.md((?:,? (?:and )?"[^"]+"(?: \d+)?)+)`)
	quoted   = regexp.MustCompile(`"([^"]+)"`)
	wrap     = regexp.MustCompile(`\s*\n[ \t]*(?://|#|\*)?[ \t]*`)
)

// TestCitedHeadings checks that docs/design.md and docs/protocol.md have each heading that
// some text cites, and have it once.
func TestCitedHeadings(t *testing.T) {
	known := map[string][]string{}
	for _, name := range []string{"design", "protocol"} {
		body, err := os.ReadFile("docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range headings(text{name, string(body)}) {
			if slices.Contains(known["design"], h) || slices.Contains(known["protocol"], h) {
				t.Errorf("docs/%s.md repeats the heading %q: a citation must be clear", name, h)
			}
			known[name] = append(known[name], h)
		}
	}
	cited := 0
	for _, f := range texts(t) {
		unwrapped := wrap.ReplaceAllString(f.body, " ")
		for _, c := range citation.FindAllStringSubmatch(unwrapped, -1) {
			for _, h := range quoted.FindAllStringSubmatch(c[2], -1) {
				cited++
				if !slices.Contains(known[c[1]], h[1]) {
					t.Errorf("%s cites docs/%s.md, %q: that document does not have this heading", f.name, c[1], h[1])
				}
			}
		}
	}
	if cited < 2 {
		t.Error("the tree has no citations: does the pattern still find them?")
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
