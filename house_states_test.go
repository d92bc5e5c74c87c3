package main_test

import (
	"go/ast"
	"testing"
)

// TestStatesAreShared checks that only package state changes what a state points to: its
// rows, maps and lists. The store hands the state that it keeps to all who read it, and
// Step copies it before it changes it (docs/decisions/0059-state-file.md).
func TestStatesAreShared(t *testing.T) {
	parts := stateParts(t)
	// elementOf returns the name of the part of a state that e is an element of, or "".
	elementOf := func(e ast.Expr) string {
		for {
			switch x := e.(type) {
			case *ast.SelectorExpr:
				e = x.X
			case *ast.IndexExpr:
				s, ok := x.X.(*ast.SelectorExpr)
				if !ok {
					return ""
				}
				if parts[s.Sel.Name] {
					return s.Sel.Name
				}
				e = s.X
			default:
				return ""
			}
		}
	}
	for _, s := range sources(t) {
		if s.folder == "state" || s.test || !importsState(s) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			var changed []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				changed = n.Lhs
			case *ast.IncDecStmt:
				changed = []ast.Expr{n.X}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear") {
					changed = []ast.Expr{&ast.IndexExpr{X: n.Args[0]}}
				}
			}
			for _, e := range changed {
				if name := elementOf(e); name != "" && !ownParts[s.name+" "+name] {
					t.Errorf("%s: this changes %s of a state that others may hold: Step alone may", s.at(n), name)
				}
			}
			return true
		})
	}
}

// stateParts returns the names of the lists and maps of a state: of state.State and of the structs
// that it embeds.
func stateParts(t *testing.T) map[string]bool {
	t.Helper()
	structs := map[string]*ast.StructType{}
	for _, s := range sources(t) {
		if s.folder != "state" || s.test {
			continue
		}
		for n := range ast.Preorder(s.file) {
			if spec, ok := n.(*ast.TypeSpec); ok {
				structs[spec.Name.Name], _ = spec.Type.(*ast.StructType)
			}
		}
	}
	parts := map[string]bool{}
	addParts(parts, structs, "State")
	if !parts["Inbox"] || !parts["Seen"] || !parts["Lines"] {
		t.Fatalf("the parts of a state are %v", parts)
	}
	return parts
}

// addParts adds the lists and maps of a struct, and of the structs that it embeds.
func addParts(parts map[string]bool, structs map[string]*ast.StructType, name string) {
	for _, f := range structs[name].Fields.List {
		_, list := f.Type.(*ast.ArrayType)
		_, table := f.Type.(*ast.MapType)
		for _, field := range f.Names {
			parts[field.Name] = parts[field.Name] || list || table
		}
		if len(f.Names) == 0 {
			addParts(parts, structs, f.Type.(*ast.Ident).Name)
		}
	}
}

// ownParts are parts of other types that have the name of a part of the state.
var ownParts = map[string]bool{"cycle/view/status.go Credentials": true}

func importsState(s source) bool {
	for _, spec := range s.file.Imports {
		if spec.Path.Value == `"`+module+`/state"` {
			return true
		}
	}
	return false
}
