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

// room is one package of the house.
type room struct {
	path    string // of the folder; "." is main
	purpose string // one line for the plan in docs/design.md, "The house"

	// imports are the packages of ours that it may import, besides those in internal. A
	// test of the package may also import state/store and internal/testkit.
	imports []string
}

// testkit is the folder of the test machinery. Its packages may import each other and
// whatever they test, and they are exempt from the rules for the product.
const testkit = "internal/testkit"

func isTestkit(folder string) bool {
	return folder == testkit || strings.HasPrefix(folder, testkit+"/")
}

func isInternal(folder string) bool {
	return strings.HasPrefix(folder, "internal/") && !isTestkit(folder)
}

// house is the list of all packages. The plan in docs/design.md and the diagram in
// docs/architecture.md are written from it by go test . -update.
var house = rooms()

func rooms() []room {
	leaves := []string{"mail", "mail/message", "mail/trust", "mesh", "fleet", "fleet/seat", "cron", "cron/timer", "turn", "turn/box", "turn/relay", "state", "state/store"}
	belowCycle := slices.Concat([]string{"cycle/view", "cycle/files", "cycle/heartbeat", "cycle/hook", "cycle/prompt", "cycle/quarantine"}, leaves)
	fromCycle := slices.Concat([]string{"cycle"}, belowCycle)
	config := slices.Concat([]string{"commands/terminal", "mesh/natsmesh", "turn/react", "turn/toolserver"}, fromCycle)
	command := slices.Concat([]string{"commands/config"}, config)
	return []room{
		{".", "signals, commands.Run, exit code", []string{"commands"}},
		{"commands", "the command line: flags, printing, errors, exit codes; no decisions", slices.Concat([]string{"turn/acp", "commands/act", "commands/apirunner", "commands/backup", "commands/doctor", "commands/manual", "commands/mcpserver", "commands/page", "commands/present", "commands/removal", "commands/setup", "cycle/archive", "cycle/demo", "cycle/listen", "cycle/replay"}, command)},
		{"commands/config", "agent.toml → *cycle.Agent", config},
		{"commands/backup", "writes and restores the archive of an agent: which files, and where they belong", slices.Concat([]string{"cycle/archive"}, command)},
		{"commands/doctor", "the checks of `doctor`", command},
		{"commands/setup", "the questions of `init`, and the files that it writes", command},
		{"commands/removal", "the files of an agent that `uninstall --purge` removes, and their removal", slices.Concat([]string{"commands/setup", "cycle/listen"}, command)},
		{"commands/present", "the texts that people read: status, history, inbox, outbox; data in, text out", []string{"commands/terminal", "cycle", "cycle/replay", "cycle/timeline", "cycle/view", "mail/trust", "mesh", "state"}},
		{"commands/manual", "manual pages, from the texts of help pages and the example configuration; text in, text out", nil},
		{"commands/act", "what the operator changes, for the commands and the page: finds the item, words the result", slices.Concat([]string{"commands/present", "commands/terminal"}, fromCycle)},
		{"commands/page", "the page of `listen` and `status --html`, and the metrics", slices.Concat([]string{"commands/act", "commands/present", "commands/terminal", "cycle/listen"}, fromCycle)},
		{"commands/terminal", "times, tables, JSON, questions, passwords", nil},
		{"commands/apirunner", "the hidden process behind runner = \"api\"", command},
		{"commands/mcpserver", "offers tools to a program, by the Model Context Protocol", []string{"turn/react"}},
		{"cycle", "the one place where everything meets: poll, observe, commit, project, perform, turns, deliver, watchdog", belowCycle},
		{"cycle/view", "shows an agent: status, lists, receipts, events; it only reads", []string{"cycle/quarantine", "mail/message", "mail/trust", "mesh", "state", "state/store", "turn"}},
		{"cycle/files", "files that come with messages and go with answers: names, copies, sums, lists", []string{"cycle/prompt", "cycle/quarantine", "mail/message", "mesh", "state", "state/store", "turn"}},
		{"cycle/prompt", "layers, templates, recall; data in, text out", []string{"state"}},
		{"cycle/quarantine", "the folder and its limits", []string{"state", "state/store"}},
		{"cycle/heartbeat", "requests the address of a monitor that notices a dead machine", []string{"mail"}},
		{"cycle/hook", "calls the programs and addresses that receive events", []string{"state"}},
		{"cycle/listen", "the daemon that wakes agents at once", fromCycle},
		{"cycle/archive", "the format of a backup: tar, sums, and secrets encrypted with age", nil},
		{"cycle/demo", "a day in the life of an agent, against servers in memory", slices.Concat([]string{"cycle/listen", "cycle/timeline", "mesh/natsmesh"}, fromCycle)},
		{"cycle/replay", "what the mails of some time would have caused, on a clock of its own; it writes nothing", fromCycle},
		{"cycle/timeline", "prints what happens to agents over time, for `demo` and `replay`", []string{"state"}},
		{"state", "the machine: pure", nil},
		{"state/store", "state.json, its copy, the history, locks, payloads, nudges, log", []string{"state"}},
		{"mail", "IMAP in, SMTP out", []string{"mail/message", "mail/trust", "state"}},
		{"mail/trust", "decides whether a mail is an order: gates, DKIM, server verdicts, challenges", []string{"mail/message", "state"}},
		{"mail/message", "bytes in, text out: header, content, HTML, reply text, render", []string{"mail/markdown"}},
		{"mail/markdown", "the HTML part of an answer, from its text", nil},
		{"mesh", "localMesh: the client, and an embedded mesh", []string{"state"}},
		{"mesh/natsmesh", "the mesh over NATS, between machines", []string{"fleet", "mesh", "state"}},
		{"fleet", "NATS servers, their subjects, keys, signatures and rights", []string{"state"}},
		{"fleet/seat", "one agent on several hosts: who acts, and until when", []string{"fleet", "state", "state/store"}},
		{"cron", "the crontab line: text editing, and crontab(1)", []string{"state"}},
		{"cron/timer", "units that poll without cron: systemd timers, launchd agents", []string{"cron", "state"}},
		{"turn", "runs the agent on one message: a subprocess, its event stream, its sandboxes", []string{"state", "turn/box"}},
		{"turn/react", "the built-in loop that asks a model and runs tools", []string{"state", "turn", "turn/box"}},
		{"turn/acp", "speaks the Agent Client Protocol with an agent, for runner = \"acp\"", []string{"turn", "turn/box"}},
		{"turn/box", "namespaces in which the programs of an agent run", nil},
		{"turn/relay", "carries the commands of a sandboxed agent to its runner", nil},
		{"turn/toolserver", "MCP servers as tools of the built-in loop", []string{"turn/box", "turn/react"}},

		{"internal/account", "the user who runs the program: home directory and name", nil},
		{"internal/boot", "the clock since the start of the machine, which counts sleep", nil},
		{"internal/capture", "runs a program, and keeps its output up to a limit", nil},
		{"internal/lazy", "regular expressions that are compiled at their first use", nil},
		{"internal/members", "writes and reads JSON without reflection", []string{"internal/order"}},
		{"internal/memory", "ends the process when it uses too much memory", []string{"internal/secret"}},
		{"internal/order", "sorts slices with little code in the binary", nil},
		{"internal/osfile", "opens regular files only, and makes names survive a power loss", nil},
		{"internal/plain", "makes foreign text safe to show", nil},
		{"internal/secret", "known secrets and their redaction", []string{"internal/order", "internal/plain"}},

		{testkit, "test machinery: ports and folders", nil},
		{testkit + "/browser", "drives a headless Chromium", nil},
		{testkit + "/clitest", "stand-ins for agent programs", nil},
		{testkit + "/crontest", "a crontab(1) for tests", nil},
		{testkit + "/fleetsim", "tries to break the promises of an agent on several hosts, from seeds", nil},
		{testkit + "/fleettest", "starts the real nats-server", nil},
		{testkit + "/fleettrial", "kills, stops, cuts off and copies the hosts of agents that have several", nil},
		{testkit + "/limittest", "tests limits at their edges", nil},
		{testkit + "/mailtest", "IMAP and SMTP servers in the process", nil},
		{testkit + "/membersgen", "writes state/members_gen.go", nil},
		{testkit + "/memcarrier", "a mesh in memory, compared with the real one by a table", nil},
		{testkit + "/memfleet", "the servers of an agent on several hosts in memory", nil},
		{testkit + "/natsfaults", "breaks the mesh over NATS while agents write to each other", nil},
		{testkit + "/powerloss", "simulates power cuts of the real program", nil},
		{testkit + "/recording", "draws the demo as the animated picture of the README", nil},
		{testkit + "/scripted", "a model that follows a script", nil},
		{testkit + "/simulator", "tries to break every promise, from seeds", nil},
		{testkit + "/simulator/mutants", "breaks the code, and runs the tests that must notice", nil},
		{testkit + "/timertest", "a systemctl(1), launchctl(1) and loginctl(1) for tests", nil},
		{testkit + "/statetest", "invariants of every state", nil},
	}
}

// roomOf returns the room of a folder.
func roomOf(folder string) (room, bool) {
	i := slices.IndexFunc(house, func(r room) bool { return r.path == folder })
	if i < 0 {
		return room{}, false
	}
	return house[i], true
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

// TestImports checks the imports of every file. Of the product, only the demo may import
// test machinery.
func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		r, known := roomOf(s.folder)
		if !known {
			t.Errorf("%s: the house has no room %s: add it to the list, and run go test . -update", s.name, s.folder)
			continue
		}
		if isTestkit(s.folder) {
			continue
		}
		for spec, p := range s.imports(t) {
			ours, ok := strings.CutPrefix(p, module+"/")
			switch {
			case !ok || slices.Contains(r.imports, ours):
			case isInternal(ours) && !isInternal(s.folder):
			case isTestkit(ours) && (s.test || s.folder == "cycle/demo"):
			case s.test && (ours == s.folder || ours == "state/store"):
			default:
				t.Errorf("%s: %s may not import %s, only %v", s.at(spec), s.folder, ours, r.imports)
			}
		}
	}
}

// TestTrustHasNoConnection checks that the decision about a mail knows no mail server: an
// audit of it reads one package.
func TestTrustHasNoConnection(t *testing.T) {
	for _, s := range sources(t) {
		for spec, p := range s.imports(t) {
			if s.folder == "mail/trust" && (strings.Contains(p, "/go-imap") || strings.Contains(p, "/go-smtp") || p == "os") {
				t.Errorf("%s: mail/trust may not import %s", s.at(spec), p)
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
	exempt := []string{"turn/box", "cycle/demo"}
	for _, s := range sources(t) {
		if s.test || isTestkit(s.folder) || slices.Contains(exempt, s.folder) {
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
	for _, s := range sources(t) {
		if s.test || isTestkit(s.folder) {
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
// (docs/decisions/0058-tls-roots.md).
func TestCryptoTLSVerifies(t *testing.T) {
	for _, s := range sources(t) {
		for n := range ast.Preorder(s.file) {
			if id, ok := n.(*ast.Ident); ok && id.Name == "InsecureSkipVerify" {
				t.Errorf("%s: %s", s.at(id), id.Name)
			}
		}
	}
}

// TestSortingIsShared refuses the functions of package slices that have a copy of their algorithm
// for each type (docs/decisions/0076-sorting.md).
func TestSortingIsShared(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || isTestkit(s.folder) {
			continue
		}
		for call := range selectors(s.file, "slices") {
			if name := call.Sel.Name; name == "SortFunc" || name == "SortStableFunc" {
				t.Errorf("%s: slices.%s: package internal/order does this with less code", s.at(call), name)
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
	rooms := []string{"docs", "packaging", "testdata"}
	for _, r := range house {
		top, _, _ := strings.Cut(r.path, "/")
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
