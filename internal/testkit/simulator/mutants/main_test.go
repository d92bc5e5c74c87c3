package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// most is how many breaks the list may hold, so that a third is tried within minutes.
const most = 150

// TestBreaksStillApply checks that each break is complete, that its old lines occur once
// in its file, and that the tests which it names exist, so that a change of the code
// cannot silently disarm it.
func TestBreaksStillApply(t *testing.T) {
	breaks, err := readBreaks(listName)
	if err != nil {
		t.Fatal(err)
	}
	if len(breaks) == 0 || len(breaks) > most {
		t.Errorf("%d breaks, at most %d may be there", len(breaks), most)
	}
	ofFleet, err := readBreaks(fleetList)
	if err != nil {
		t.Fatal(err)
	}
	breaks = append(breaks, ofFleet...)
	root := filepath.Join("..", "..", "..", "..")
	names, functions := map[string]bool{}, map[string][]string{}
	for _, b := range breaks {
		if names[b.name] || b.what == "" || b.old == b.new {
			t.Errorf("%s: occurs twice, or does not say what it breaks, or changes nothing", b.name)
		}
		names[b.name] = true
		whole, err := os.ReadFile(filepath.Join(root, b.file))
		if err != nil {
			t.Errorf("%s: %v", b.name, err)
			continue
		}
		if _, err := b.apply(string(whole)); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
		command, pattern := b.splitTest()
		folder, _, _ := strings.Cut(command, " ")
		if functions[folder] == nil {
			functions[folder] = testFunctions(t, filepath.Join(root, folder))
		}
		for one := range strings.SplitSeq(pattern, "|") {
			top, _, _ := strings.Cut(one, "/")
			name, err := regexp.Compile(top)
			if err != nil || top == "" || !slices.ContainsFunc(functions[folder], name.MatchString) {
				t.Errorf("%s: -run %q matches no test of %s", b.name, one, folder)
			}
		}
	}
}

// testFunctions returns the names of the tests of a package.
func testFunctions(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// TestThirds checks that three hashes in a row choose each break once.
func TestThirds(t *testing.T) {
	breaks, err := readBreaks(listName)
	if err != nil {
		t.Fatal(err)
	}
	chosen := map[string]int{}
	for _, hash := range []string{"8f9399ec", "8f9399ed", "8f9399ee"} {
		part, err := third(breaks, hash)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) > len(breaks)/3+1 {
			t.Errorf("%s chooses %d of %d breaks", hash, len(part), len(breaks))
		}
		for _, b := range part {
			chosen[b.name]++
		}
	}
	for _, b := range breaks {
		if chosen[b.name] != 1 {
			t.Errorf("%s is in %d thirds", b.name, chosen[b.name])
		}
	}
	for _, wrong := range []string{"", "HEAD", "-1"} {
		if part, err := third(breaks, wrong); err == nil {
			t.Errorf("%q chooses %d breaks", wrong, len(part))
		}
	}
}
