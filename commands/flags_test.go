package commands

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// flagReaders are the methods of cli.Context that read a flag by its name.
var flagReaders = []string{
	"Bool", "Count", "Duration", "Float64", "Float64Slice", "Generic", "Int", "Int64", "Int64Slice", "IntSlice", "IsSet", "Path",
	"String", "StringSlice", "Timestamp", "Uint", "Uint64", "Uint64Slice", "UintSlice", "Value",
}

// TestNoFlagReadByName checks that commands read their flags from their options structs: a wrong name
// would silently be an absent flag. Only given asks the library.
func TestNoFlagReadByName(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if ok && slices.Contains(flagReaders, method.Sel.Name) && types.ExprString(method) != "time.Duration" {
					if found++; function.Name.Name != "given" {
						t.Errorf("%s: %s reads a flag by its name", fset.Position(n.Pos()), function.Name.Name)
					}
				}
				return true
			})
		}
	}
	if found == 0 {
		t.Error("the test finds no function that reads a flag, not even given")
	}
}

// TestEachFlagBound checks that each flag sets its own variable, and that another run of the same
// command has other variables.
func TestEachFlagBound(t *testing.T) {
	p := testProgram()
	bound := map[any]string{}
	var add func(path string, commands []*cli.Command)
	add = func(path string, commands []*cli.Command) {
		for _, c := range commands {
			for _, f := range c.Flags {
				which := path + c.Name + " " + dashed(f.Names()[0])
				variable := variableOf(f)
				if variable == nil {
					t.Errorf("%s is bound to no variable", which)
				}
				if other := bound[variable]; other != "" {
					t.Errorf("%s and %s are bound to one variable", which, other)
				}
				bound[variable] = which
			}
			add(path+c.Name+" ", c.Subcommands)
		}
	}
	add("", p.app().Commands)
	add("again: ", p.app().Commands)
	if len(bound) < 200 {
		t.Errorf("%d flags are bound", len(bound))
	}
}
