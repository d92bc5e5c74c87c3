//go:build docs

package main_test

import (
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
	arrows := importsByFolder(t)
	if drawn, want := string(block[1]), drawing(arrows); drawn != want {
		t.Errorf("the diagram of docs/architecture.md differs from the imports, which are:\n%s", want)
	}
}

// importsByFolder returns the packages of ours that the packages of ours import,
// test files apart.
func importsByFolder(t *testing.T) map[string][]string {
	t.Helper()
	arrows := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		arrows[s.folder] = append(arrows[s.folder], []string{}...)
		for _, p := range s.imports(t) {
			if ours, ok := strings.CutPrefix(p, module+"/"); ok && !slices.Contains(arrows[s.folder], ours) {
				arrows[s.folder] = append(arrows[s.folder], ours)
			}
		}
	}
	for _, to := range arrows {
		slices.Sort(to)
	}
	return arrows
}

// drawing returns the diagram: a line for each package, above all that it
// imports, and so that of two that could come next the first by name does.
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
			return strings.Join(lines, "\n") + "\nand a circle" // which the compiler would not take
		}
		slices.Sort(free)
		lines = append(lines, strings.TrimRight(padded(strings.Replace(free[0], ".", "main", 1))+strings.Join(left[free[0]], ", "), " "))
		delete(left, free[0])
	}
	return strings.Join(lines, "\n")
}

// padded returns a name with the arrow behind it, in its column.
func padded(name string) string { return name + strings.Repeat(" ", max(1, 24-len(name))) + "→ " }
