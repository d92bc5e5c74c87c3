package main_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// line returns the line of a byte of the body.
func (f text) line(offset int) int { return 1 + strings.Count(f.body[:offset], "\n") }

// documents returns the texts that are written in Markdown.
func documents(t *testing.T) []text {
	return slices.DeleteFunc(texts(t), func(f text) bool {
		return path.Ext(f.name) != ".md" || strings.Contains(f.name, "testdata")
	})
}

// code is a span in backticks, link a link of Markdown.
var (
	code = regexp.MustCompile("`([^`\n]+)`")
	link = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)`)
)

// TestTheDocsNameWhatIsThere checks that each file or folder of the repository
// that a document names in backticks exists.
func TestTheDocsNameWhatIsThere(t *testing.T) {
	tops, err := filepath.Glob("*")
	if err != nil {
		t.Fatal(err)
	}
	tops = append(tops, ".ci")
	for _, f := range documents(t) {
		body := fence.ReplaceAllStringFunc(f.body, lineBreaks)
		for _, m := range code.FindAllStringSubmatchIndex(body, -1) {
			name := body[m[2]:m[3]]
			top, _, below := strings.Cut(name, "/")
			switch {
			case strings.ContainsAny(name, " <>$~"):
				continue
			case !below && path.Ext(name) != ".go":
				continue
			case below && !slices.Contains(tops, top) && !slices.Contains([]string{"internal"}, top):
				continue // a file of an agent, or an import path
			}
			if found, err := filepath.Glob(strings.TrimSuffix(name, "/")); err != nil || len(found) == 0 {
				t.Errorf("%s:%d: `%s` does not exist", f.name, f.line(m[0]), name)
			}
		}
	}
}

// TestTheDocsLinksLeadSomewhere checks that each link between the documents
// leads to a file that exists, and to a heading that it has.
func TestTheDocsLinksLeadSomewhere(t *testing.T) {
	anchors := map[string][]string{}
	for _, f := range documents(t) {
		for _, h := range headings(f) {
			anchors[f.name] = append(anchors[f.name], anchor(h))
		}
	}
	for _, f := range documents(t) {
		for _, m := range link.FindAllStringSubmatchIndex(f.body, -1) {
			target := f.body[m[2]:m[3]]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			name := f.name
			if target != "" {
				name = path.Join(path.Dir(f.name), target)
			}
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s:%d: a link to %s, which does not exist", f.name, f.line(m[0]), name)
			}
			if m[4] >= 0 && !slices.Contains(anchors[name], f.body[m[4]:m[5]]) {
				t.Errorf("%s:%d: a link to #%s, a heading that %s does not have", f.name, f.line(m[0]), f.body[m[4]:m[5]], name)
			}
		}
	}
}

var punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor returns what a link calls a heading by.
func anchor(heading string) string {
	return strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// plan is the fenced block of docs/design.md that shows the folders.
var plan = regexp.MustCompile("(?s)\n## The house\n.*?\n```\n(.*?)\n```\n")

// TestThePlanAgrees checks that the plan in docs/design.md is that of the house.
func TestThePlanAgrees(t *testing.T) {
	body, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	block := plan.FindSubmatch(body)
	if block == nil {
		t.Fatal("docs/design.md has no plan below \"The house\"")
	}
	compareOrUpdate(t, "docs/design.md", string(block[1]), drawnPlan())
	for _, r := range house {
		if info, err := os.Stat(r.path); err != nil || !info.IsDir() {
			t.Errorf("the folder %s of the house does not exist", r.path)
		}
	}
}

// drawnPlan returns the plan: a line for each package, below the folder that it is in.
func drawnPlan() string {
	const indent = 23
	var lines []string
	for _, r := range house {
		name := r.path + "/"
		if r.path == "." {
			name = "main.go"
		}
		for parent := path.Dir(r.path); parent != "."; parent = path.Dir(parent) {
			if _, ok := roomOf(parent); ok {
				depth := 1 + strings.Count(parent, "/")
				name = strings.Repeat("  ", depth) + strings.TrimPrefix(r.path, parent+"/") + "/"
				break
			}
		}
		lines = append(lines, name+strings.Repeat(" ", max(1, indent-len(name)))+r.purpose)
	}
	return strings.Join(lines, "\n")
}

var (
	record = regexp.MustCompile(`^[0-9]{4}-[a-z0-9-]+\.md$`)
	entry  = regexp.MustCompile(`\[([^\]\n]+)\]\(([^)\s]+)\)`)
)

// TestDecisionsIndex checks that docs/decisions/README.md lists each record once, under
// its title, and no other, and that two records never share a title.
func TestDecisionsIndex(t *testing.T) {
	const folder, index = "docs/decisions", "README.md"
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	titles, names := map[string]string{}, map[string]string{} // by file name; by title
	var listed []text
	for _, f := range files {
		body, err := os.ReadFile(path.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if f.Name() == index {
			for _, m := range entry.FindAllStringSubmatch(string(body), -1) {
				listed = append(listed, text{m[2], m[1]})
			}
			continue
		}
		first, _, _ := strings.Cut(string(body), "\n")
		number, title, ok := strings.Cut(strings.TrimPrefix(first, "# "), ". ")
		if !record.MatchString(f.Name()) || !ok || number != strings.TrimLeft(f.Name()[:4], "0") {
			t.Errorf("%s/%s is not named NNNN-title.md, or does not begin with \"# N. Title\"", folder, f.Name())
			continue
		}
		if other := names[title]; other != "" {
			t.Errorf("%s and %s share the title %q", other, f.Name(), title)
		}
		titles[f.Name()], names[title] = title, f.Name()
	}
	seen := map[string]bool{}
	for _, l := range listed {
		switch title, ok := titles[l.name]; {
		case !ok:
			t.Errorf("%s/%s lists %s, which does not exist", folder, index, l.name)
		case seen[l.name]:
			t.Errorf("%s/%s lists %s twice", folder, index, l.name)
		case l.body != title:
			t.Errorf("%s/%s lists %s as %q: its title is %q", folder, index, l.name, l.body, title)
		}
		seen[l.name] = true
	}
	for name := range titles {
		if !seen[name] {
			t.Errorf("%s/%s does not list %s", folder, index, name)
		}
	}
}
