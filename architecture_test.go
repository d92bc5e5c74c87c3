package main_test

import (
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// diagram is the fenced block below the heading of docs/architecture.md that
// shows who imports whom.
var diagram = regexp.MustCompile("(?s)\n## Who imports whom\n.*?\n```\n(.*?)\n```\n")

// walk is the numbered list that follows one mail through the files.
var walk = regexp.MustCompile("(?s)\n## One operator mail\n(.*?)\n## ")

// step is one entry of the walk, which begins with its file.
var step = regexp.MustCompile("(?m)^[0-9]+\\. `([^`]+)`")

// TestOneMailCrossesFewFiles checks that the walk of a mail names no file twice,
// and no more than fifty.
func TestOneMailCrossesFewFiles(t *testing.T) {
	body, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range step.FindAllSubmatch(walk.Find(body), -1) {
		if name := string(m[1]); seen[name] {
			t.Errorf("the walk of a mail names %s twice", name)
		}
		seen[string(m[1])] = true
	}
	if n := len(seen); n > 50 || n < 30 {
		t.Errorf("the walk of a mail crosses %d files", n)
	}
}

// TestTheDiagramAgrees checks that the arrows of the diagram are those of the
// code, tests apart, and that each arrow points down.
func TestTheDiagramAgrees(t *testing.T) {
	body, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	block := diagram.FindSubmatch(body)
	if block == nil {
		t.Fatal("docs/architecture.md has no diagram below \"Who imports whom\"")
	}
	compareOrUpdate(t, "docs/architecture.md", string(block[1]), drawing(importsByFolder(t)))
}

var update = flag.Bool("update", false, "write the plan of docs/design.md and the diagram of docs/architecture.md")

// compareOrUpdate compares a block of a document with its generated text, or replaces it.
func compareOrUpdate(t *testing.T, name, block, want string) {
	t.Helper()
	if block == want {
		return
	}
	if !*update {
		t.Errorf("%s is out of date: run go test . -update", name)
		return
	}
	body, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(strings.Replace(string(body), block, want, 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// importsByFolder returns the packages of ours that the packages of ours import.
// Tests are left out, and so are the internal packages.
func importsByFolder(t *testing.T) map[string][]string {
	t.Helper()
	leftOut := func(folder string) bool { return strings.HasPrefix(folder, "internal/") }
	arrows := map[string][]string{}
	for _, s := range sources(t) {
		if s.test || leftOut(s.folder) {
			continue
		}
		if arrows[s.folder] == nil {
			arrows[s.folder] = []string{}
		}
		for _, p := range s.imports(t) {
			ours, ok := strings.CutPrefix(p, module+"/")
			if ok && !leftOut(ours) && !slices.Contains(arrows[s.folder], ours) {
				arrows[s.folder] = append(arrows[s.folder], ours)
			}
		}
	}
	for _, to := range arrows {
		slices.Sort(to)
	}
	return arrows
}

// drawing returns the diagram: a line for each package, above the packages that
// it imports. Of two packages that could be next, the first by name is.
func drawing(arrows map[string][]string) string {
	left := maps.Clone(arrows)
	var lines []string
	for len(left) > 0 {
		var free []string
		for folder := range left {
			if !slices.ContainsFunc(slices.Collect(maps.Values(left)), func(to []string) bool { return slices.Contains(to, folder) }) {
				free = append(free, folder)
			}
		}
		if len(free) == 0 {
			return strings.Join(lines, "\n") + "\nand a circle" // the compiler refuses that
		}
		slices.Sort(free)
		lines = append(lines, arrow(free[0], left[free[0]]))
		delete(left, free[0])
	}
	return strings.Join(lines, "\n")
}

// arrow returns the line of one package, wrapped.
func arrow(from string, to []string) string {
	const width, indent = 100, 20
	line := strings.Replace(from, ".", "main", 1)
	line += strings.Repeat(" ", indent-len(line)) + "→"
	var b strings.Builder
	for i, name := range to {
		if i < len(to)-1 {
			name += ","
		}
		if len(line)+1+len(name) > width {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", indent+1)
		}
		line += " " + name
	}
	b.WriteString(line)
	return b.String()
}
