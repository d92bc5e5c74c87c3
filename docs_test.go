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
	citation = regexp.MustCompile(`docs/([a-z-]+)\.md((?:,? (?:and )?"[^"]+"(?: \d+)?)+)`)
	// citedBefore is the other form, with the heading before the document.
	citedBefore = regexp.MustCompile(`("[^"]+") in docs/([a-z-]+)\.md`)
	quoted      = regexp.MustCompile(`"([^"]+)"`)
	wrap        = regexp.MustCompile(`\s*\n[ \t]*(?://|#|\*)?[ \t]*`)
	// page is the name of a document in any text.
	page = regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)
)

// TestCitedHeadings checks that each document of docs has each heading that some text cites, and
// that docs/design.md and docs/protocol.md have it once.
func TestCitedHeadings(t *testing.T) {
	known := map[string][]string{}
	for _, f := range documents(t) {
		name := strings.TrimSuffix(strings.TrimPrefix(f.name, "docs/"), ".md")
		for _, h := range headings(f) {
			if slices.Contains([]string{"design", "protocol"}, name) && (slices.Contains(known["design"], h) || slices.Contains(known["protocol"], h)) {
				t.Errorf("%s repeats the heading %q: a citation must be clear", f.name, h)
			}
			known[name] = append(known[name], h)
		}
	}
	cited := 0
	for _, f := range texts(t) {
		unwrapped := wrap.ReplaceAllString(f.body, " ")
		check := func(name, headings string) {
			for _, h := range quoted.FindAllStringSubmatch(headings, -1) {
				cited++
				if !slices.Contains(known[name], h[1]) {
					t.Errorf("%s cites docs/%s.md, %q: that document does not have this heading", f.name, name, h[1])
				}
			}
		}
		for _, c := range citation.FindAllStringSubmatch(unwrapped, -1) {
			check(c[1], c[2])
		}
		for _, c := range citedBefore.FindAllStringSubmatch(unwrapped, -1) {
			check(c[2], c[1])
		}
	}
	if cited < 2 {
		t.Error("the tree has no citations: does the pattern still find them?")
	}
}

// TestNamedPagesExist checks that each document of docs that some text names exists: hints,
// comments and examples name the pages of the guide.
func TestNamedPagesExist(t *testing.T) {
	for _, f := range texts(t) {
		for _, m := range page.FindAllStringIndex(f.body, -1) {
			if name := f.body[m[0]:m[1]]; !exists(name) {
				t.Errorf("%s:%d: %s does not exist", f.name, f.line(m[0]), name)
			}
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
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
