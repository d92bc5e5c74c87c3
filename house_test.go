package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "agentstateloop"

// leaves are the packages that touch the world, each one part of it (DESIGN 2).
var leaves = []string{"mail", "mesh", "cron", "turn"}

// internals know nothing of ours, and all may use them.
var internals = []string{"internal/plain", "internal/secret"}

// helpers are servers and tools for tests, the demo and the simulator.
var helpers = []string{"mail/mailtest", "cron/crontest", "turn/react/scripted", "state/statetest"}

// allowed says which of our packages the files of folder may import.
func allowed(folder string, test bool) []string {
	var may []string
	top, _, below := strings.Cut(folder, "/")
	switch top {
	case ".":
		may = []string{"commands"}
	case "commands":
		may = slices.Concat([]string{"cycle", "cycle/prompt", "cycle/demo", "cycle/listen", "state", "state/store", "turn/react", "mail/message"}, leaves)
		may = append(may, roomsBelow(folder)...)
	case "cycle":
		may = slices.Concat([]string{"cycle/prompt", "state", "state/store", "mail/message"}, leaves)
	case "mail":
		may = []string{"state", "mail/message"}
	case "mesh", "cron", "turn":
		may = []string{"state"}
	case "state": // nothing of ours
	}
	if top == "internal" {
		if test {
			may = append(may, folder)
		}
		return may
	}
	may = append(may, internals...)
	if folder == "cycle/prompt" { // data in, text out: it knows nothing of a cycle
		may = append([]string{"state"}, internals...)
		if test {
			may = append(may, folder)
		}
		return may
	}
	if below && top != "commands" {
		may = append(may, top)
	}
	if folder == "mail/message" {
		may = slices.Clone(internals) // bytes in, text out
	}
	if folder == "cycle/demo" {
		may = append(may, "cycle/listen")
	}
	if test {
		may = append(may, folder, "state/store") // a test from outside, and what keeps files
	}
	if test || below && top == "cycle" {
		may = append(may, helpers...)
	}
	return may
}

// roomsBelow are the rooms of commands that stand below folder, itself one of
// them or commands: commands → {doctor, setup, apirunner} → {terminal, config}.
func roomsBelow(folder string) []string {
	var below []string
	for _, floor := range [][]string{
		{"commands"},
		{"commands/apirunner", "commands/doctor", "commands/setup"},
		{"commands/config"},
		{"commands/terminal"},
	} {
		if slices.Contains(floor, folder) {
			below = []string{}
			continue
		}
		if below != nil {
			below = append(below, floor...)
		}
	}
	return below
}

type source struct {
	folder, name string
	test         bool
	file         *ast.File
	fset         *token.FileSet
}

func (s source) at(n ast.Node) string { return s.fset.Position(n.Pos()).String() }

// sources are all Go files of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		s := source{folder: path.Dir(name), name: name, test: strings.HasSuffix(name, "_test.go"), fset: token.NewFileSet()}
		s.file, err = parser.ParseFile(s.fset, name, nil, parser.SkipObjectResolution)
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// imports are the paths that a file imports, by the import.
func (s source) imports(t *testing.T) map[*ast.ImportSpec]string {
	t.Helper()
	paths := map[*ast.ImportSpec]string{}
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths[spec] = p
	}
	return paths
}

// TestWhoImportsWhom: main → commands → cycle → the leaves and state; the leaves
// know state at most, and not one another; state knows nobody.
func TestWhoImportsWhom(t *testing.T) {
	for _, s := range sources(t) {
		may := allowed(s.folder, s.test)
		for spec, p := range s.imports(t) {
			ours, ok := strings.CutPrefix(p, module+"/")
			if ok && !slices.Contains(may, ours) {
				t.Errorf("%s: %s may not import %s, only %v", s.at(spec), s.folder, ours, may)
			}
		}
	}
}

// TestStateIsPure: state has no network, runs nothing and reads no clock: time
// is an argument.
func TestStateIsPure(t *testing.T) {
	clocks := []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
	for _, s := range sources(t) {
		if s.folder != "state" || s.test {
			continue
		}
		for spec, p := range s.imports(t) {
			if p == "os/exec" || p == "net" || strings.HasPrefix(p, "net/") && p != "net/url" {
				t.Errorf("%s: state may not import %s", s.at(spec), p)
			}
		}
		for call := range selectors(s.file, "time") {
			if slices.Contains(clocks, call.Sel.Name) {
				t.Errorf("%s: state reads a clock: time.%s", s.at(call), call.Sel.Name)
			}
		}
	}
}

// TestGoroutinesAreGuarded: no goroutine's crash report shows a secret. Who
// holds none needs no guard.
func TestGoroutinesAreGuarded(t *testing.T) {
	exempt := append([]string{"cycle/demo", "cycle/simulator", "cycle/simulator/mutants"}, helpers...)
	for _, s := range sources(t) {
		if s.test || slices.Contains(exempt, s.folder) {
			continue
		}
		for n := range ast.Preorder(s.file) {
			var begins ast.Expr
			switch n := n.(type) {
			case *ast.GoStmt:
				begins = n.Call.Fun
			case *ast.CallExpr:
				if called(n) == "Go" && len(n.Args) == 1 {
					begins = n.Args[0]
				}
			}
			if begins != nil && called(begins) != "Guarded" {
				t.Errorf("%s: a goroutine that does not begin with Secrets.Guarded", s.at(n))
			}
		}
	}
}

// called is the name of the method that an expression calls; "" if none.
func called(e ast.Expr) string {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return ""
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	return method.Sel.Name
}

// TestOnlyMainExits: only main exits, only commands prints, and to the writers
// it is given, as do the libraries; nothing runs before main.
func TestOnlyMainExits(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for call := range selectors(s.file, "os") {
			if call.Sel.Name == "Exit" && s.file.Name.Name != "main" {
				t.Errorf("%s: os.Exit outside a main", s.at(call))
			}
		}
		for call := range selectors(s.file, "fmt") {
			if strings.HasPrefix(call.Sel.Name, "Print") && s.file.Name.Name != "main" {
				t.Errorf("%s: fmt.%s prints to whatever stdout is", s.at(call), call.Sel.Name)
			}
		}
		for call := range selectors(s.file, "log") {
			if !strings.HasPrefix(call.Sel.Name, "New") && call.Sel.Name != "Logger" && call.Sel.Name != "SetOutput" {
				t.Errorf("%s: log.%s prints, or exits", s.at(call), call.Sel.Name)
			}
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init", s.at(f))
			}
		}
	}
}

// selectors yields the uses of pkg's names in a file that imports it under its
// own name.
func selectors(file *ast.File, pkg string) func(yield func(*ast.SelectorExpr) bool) {
	imported := slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		return spec.Path.Value == strconv.Quote(pkg) && spec.Name == nil
	})
	return func(yield func(*ast.SelectorExpr) bool) {
		if !imported {
			return
		}
		for n := range ast.Preorder(file) {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg && !yield(sel) {
				return
			}
		}
	}
}

// TestRooms: the top level is the house of DESIGN 2; another package needs a
// decision record, and this list.
func TestRooms(t *testing.T) {
	rooms := slices.Concat([]string{"commands", "cycle", "state", "internal", "docs", "testdata"}, leaves)
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."):
		case e.IsDir() && !slices.Contains(rooms, name):
			t.Errorf("a room that is not in the plan: %s/", name)
		case strings.HasSuffix(name, ".go") && name != "main.go" && !strings.HasSuffix(name, "_test.go"):
			t.Errorf("%s: main has one file", name)
		}
	}
	for _, room := range rooms {
		if info, err := os.Stat(room); room != "testdata" && (err != nil || !info.IsDir()) {
			t.Errorf("%s/ is missing", room)
		}
	}
}
