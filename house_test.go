package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "agentstateloop"

// leaves are the packages that touch the world, each one part of it.
var leaves = []string{"mail", "mesh", "fleet", "cron", "turn"}

// internals import nothing of ours but one another. All other packages may import
// them.
var internals = []string{"internal/account", "internal/capture", "internal/durable", "internal/freeport", "internal/lazy", "internal/limittest", "internal/members", "internal/memory", "internal/plain", "internal/regular", "internal/secret", "internal/tempdir"}

// helpers are servers and tools for tests, the demo and the simulator.
var helpers = []string{"fleet/fleettest", "fleet/fleettest/memory", "mail/mailtest", "cron/crontest", "turn/clitest", "turn/react/scripted", "state/statetest"}

// mayImport lists the packages of the house, and which of ours each may import
// besides internals (docs/design.md, "The house").
var mayImport = rooms()

func rooms() map[string][]string {
	belowCycle := slices.Concat(leaves, []string{"mail/message", "state", "state/store", "turn/box", "turn/relay"})
	fromCycle := slices.Concat([]string{"cycle", "cycle/heartbeat", "cycle/hook", "cycle/prompt", "cycle/quarantine"}, belowCycle)
	command := slices.Concat([]string{"commands/config", "commands/terminal", "mesh/natsmesh", "turn/react", "turn/toolserver"}, fromCycle)
	return map[string][]string{
		".":                  {"commands"},
		"commands":           slices.Concat([]string{"turn/acp", "commands/apirunner", "commands/doctor", "commands/mcpserver", "commands/setup", "cycle/demo", "cycle/listen"}, command),
		"commands/apirunner": command,
		"commands/doctor":    command,
		"commands/setup":     command,
		"commands/config":    slices.Concat([]string{"commands/terminal", "mesh/natsmesh", "turn/react", "turn/toolserver"}, fromCycle),
		"commands/mcpserver": {"turn/react"},
		"commands/powerloss": {"mail/message", "mesh"},
		"commands/terminal":  nil,

		"cycle":                   slices.Concat([]string{"cycle/heartbeat", "cycle/hook", "cycle/prompt", "cycle/quarantine"}, belowCycle),
		"cycle/demo":              slices.Concat([]string{"cycle/listen", "mesh/natsmesh"}, fromCycle, helpers),
		"cycle/heartbeat":         {"mail"},
		"cycle/hook":              {"state"},
		"cycle/listen":            fromCycle,
		"cycle/natsfaults":        {"cycle", "fleet", "mesh", "mesh/natsmesh", "state", "state/store", "turn"},
		"cycle/prompt":            {"state"},
		"cycle/quarantine":        {"state", "state/store"},
		"cycle/simulator":         slices.Concat([]string{"mesh/natsmesh"}, fromCycle, helpers),
		"cycle/simulator/mutants": nil,

		"mail":                   {"mail/message", "state"},
		"mail/mailtest":          nil,
		"mail/message":           {"mail/markdown"},
		"mail/markdown":          nil,
		"mesh":                   {"state"},
		"mesh/natsmesh":          {"fleet", "mesh", "state"},
		"fleet":                  {"state"},
		"fleet/fleettest":        {"fleet", "mesh", "mesh/natsmesh", "state"},
		"fleet/fleettest/memory": {"fleet"},
		"cron":                   {"state"},
		"cron/crontest":          nil,
		"turn":                   {"state", "turn/box"},
		"turn/box":               nil,
		"turn/relay":             nil,
		"turn/acp":               {"turn", "turn/box"},
		"turn/react":             {"state", "turn", "turn/box"},
		"turn/react/scripted":    nil,
		"turn/clitest":           nil,

		"turn/toolserver": {"turn/box", "turn/react"},

		"state":           nil,
		"state/statetest": {"state"},
		"state/store":     {"state"},

		"internal/account":   nil,
		"internal/capture":   nil,
		"internal/durable":   nil,
		"internal/freeport":  nil,
		"internal/lazy":      nil,
		"internal/limittest": nil,
		"internal/members":   nil,
		"internal/memory":    {"internal/secret"},
		"internal/plain":     nil,
		"internal/regular":   nil,
		"internal/secret":    {"internal/plain"},
		"internal/tempdir":   nil,
	}
}

// source is one Go file, parsed.
type source struct {
	folder, name string
	test         bool
	file         *ast.File
	fset         *token.FileSet
}

func (s source) at(n ast.Node) string { return s.fset.Position(n.Pos()).String() }

// sources returns all Go files of the module.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed parses the Go files of the module, once for all tests.
var parsed = sync.OnceValues(func() (all []source, err error) {
	err = fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
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
	return all, err
})

// imports returns the paths that a file imports, by the import.
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

// TestWhoImportsWhom checks the imports of every file. A test may also import
// its own package, the store, limittest and the helpers.
func TestWhoImportsWhom(t *testing.T) {
	for _, s := range sources(t) {
		may, known := mayImport[s.folder]
		if !known {
			t.Errorf("%s: the house has no room %s: add it to the table, and to docs/design.md, \"The house\"", s.name, s.folder)
			continue
		}
		if !strings.HasPrefix(s.folder, "internal/") {
			may = slices.Concat(may, internals)
		}
		if s.test {
			may = slices.Concat(may, helpers, []string{s.folder, "state/store", "internal/limittest"})
		}
		for spec, p := range s.imports(t) {
			if ours, ok := strings.CutPrefix(p, module+"/"); ok && !slices.Contains(may, ours) {
				t.Errorf("%s: %s may not import %s, only %v", s.at(spec), s.folder, ours, may)
			}
		}
	}
}

// pure are the packages of others that state may import. None of them opens a
// file, reaches a network, starts a process or has a source of randomness.
var pure = []string{
	"cmp", "crypto/sha256", "crypto/subtle", "encoding/hex", "errors", "fmt", "iter", "maps", "math",
	"reflect", "slices", "strconv", "strings", "sync", "time", "unicode", "unicode/utf8",
}

// TestStateIsPure checks that the machine does no I/O and reads no clock: time
// is an argument.
func TestStateIsPure(t *testing.T) {
	clocks := []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep", "LoadLocation"}
	for _, s := range sources(t) {
		if s.folder != "state" || s.test {
			continue
		}
		for spec, p := range s.imports(t) {
			if !strings.HasPrefix(p, module+"/") && !slices.Contains(pure, p) {
				t.Errorf("%s: state may not import %s, only %v", s.at(spec), p, pure)
			}
		}
		for call := range selectors(s.file, "time") {
			if slices.Contains(clocks, call.Sel.Name) {
				t.Errorf("%s: state reads a clock: time.%s", s.at(call), call.Sel.Name)
			}
		}
		for call := range selectors(s.file, "fmt") {
			if !strings.HasPrefix(call.Sel.Name, "Sprint") && call.Sel.Name != "Errorf" && call.Sel.Name != "Stringer" {
				t.Errorf("%s: state reads or writes: fmt.%s", s.at(call), call.Sel.Name)
			}
		}
	}
}

// TestSleepsHaveAReason checks that a test that sleeps has a comment on the line of the sleep. A
// sleep of hours is a program that hangs, and testing/synctest has a clock that moves at
// once.
func TestSleepsHaveAReason(t *testing.T) {
	for _, s := range sources(t) {
		isFake := slices.ContainsFunc(s.file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"testing/synctest"` })
		if !s.test || isFake {
			continue
		}
		text, err := os.ReadFile(s.name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for call := range selectors(s.file, "time") {
			line := lines[s.fset.Position(call.Pos()).Line-1]
			if call.Sel.Name == "Sleep" && !strings.Contains(line, "time.Hour)") && !strings.Contains(line, "//") {
				t.Errorf("%s: a sleep without a comment that says why", s.at(call))
			}
		}
	}
}

// TestGoroutinesAreGuarded checks that every goroutine begins with a guard, which
// redacts its crash report. Packages that hold no secret need none.
func TestGoroutinesAreGuarded(t *testing.T) {
	exempt := append([]string{"turn/box", "cycle/demo", "cycle/simulator", "cycle/simulator/mutants"}, helpers...)
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

// called returns the name of the method that an expression calls, or "".
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

// TestNothingIsMadeAtStart checks that no package compiles a regular expression or a
// template, or makes a map, when the program starts, which cron makes it do each minute.
// internal/lazy, sync.OnceValue or a switch does it without. What is compiled later must
// be right as well.
func TestNothingIsMadeAtStart(t *testing.T) {
	onlyInTests := []string{"cycle/simulator", "cycle/simulator/mutants", "cycle/natsfaults", "fleet/fleettest", "state/statetest"}
	for _, s := range sources(t) {
		if s.test || slices.Contains(onlyInTests, s.folder) {
			continue
		}
		for _, d := range s.file.Decls {
			if _, ok := d.(*ast.FuncDecl); ok {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && slices.Contains([]string{"MustCompile", "Compile", "Must"}, called(call)) {
					t.Errorf("%s: %s when the program starts", s.at(n), called(call))
				}
				if _, ok := n.(*ast.MapType); ok && !isType(d) {
					t.Errorf("%s: a map when the program starts", s.at(n))
				}
				_, later := n.(*ast.FuncLit)
				return !later
			})
		}
		for n := range ast.Preorder(s.file) {
			if call, ok := n.(*ast.CallExpr); ok && called(call) == "NewRegexp" {
				checkExpression(t, s, call.Args[0])
			}
		}
	}
}

// isType reports whether d declares types.
func isType(d ast.Decl) bool {
	g, ok := d.(*ast.GenDecl)
	return ok && g.Tok == token.TYPE
}

// checkExpression checks a regular expression that is written out, in one part or more.
func checkExpression(t *testing.T, s source, e ast.Expr) {
	t.Helper()
	var text func(ast.Expr) (string, bool)
	text = func(e ast.Expr) (string, bool) {
		switch e := e.(type) {
		case *ast.BasicLit:
			part, err := strconv.Unquote(e.Value)
			return part, err == nil
		case *ast.BinaryExpr:
			left, known := text(e.X)
			right, also := text(e.Y)
			return left + right, known && also
		}
		return "", false // a constant
	}
	if expr, known := text(e); known {
		if _, err := regexp.Compile(expr); err != nil {
			t.Errorf("%s: %v", s.at(e), err)
		}
	}
}

// TestCryptoTLSVerifies checks that crypto/tls verifies the certificate of every server
// itself: nothing switches that off, in the tests neither
// (docs/decisions/0058-the-root-of-the-last-good-chain.md).
func TestCryptoTLSVerifies(t *testing.T) {
	for _, s := range sources(t) {
		for n := range ast.Preorder(s.file) {
			if id, ok := n.(*ast.Ident); ok && id.Name == "InsecureSkipVerify" {
				t.Errorf("%s: %s", s.at(id), id.Name)
			}
		}
	}
}

// TestOnlyMainExits checks that only main exits, that nothing prints but to a
// writer that it got as an argument, and that nothing runs before main.
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
				t.Errorf("%s: fmt.%s prints to the process's stdout", s.at(call), call.Sel.Name)
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

// selectors yields the uses of pkg's names in a file that imports pkg under its
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

// TestRooms checks the top level (docs/design.md, "The house"). Another package
// there needs a decision record.
func TestRooms(t *testing.T) {
	rooms := []string{"docs", "testdata"}
	for folder := range mayImport {
		top, _, _ := strings.Cut(folder, "/")
		rooms = append(rooms, top)
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."):
		case e.IsDir() && !slices.Contains(rooms, name):
			t.Errorf("the house has no room %s/", name)
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
