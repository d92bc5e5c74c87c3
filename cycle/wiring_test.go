package cycle_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// maxFields is how many fields a part may have. The largest, attempter, needs 13
// to make one attempt at a message; a part that needs more does two jobs.
const maxFields = 13

// TestAgentMethodsOnlyMakeParts holds docs/decisions/0017-types-and-packages.md: an
// unexported method of Agent only makes a part, with one return of a struct with
// named fields; no part holds an Agent; no part is a bag of everything. A part
// holds others by pointer.
func TestAgentMethodsOnlyMakeParts(t *testing.T) {
	fset, files := sources(t)
	made := map[string]bool{} // the types of the parts
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !isAgent(f.Recv.List[0].Type) || f.Name.IsExported() {
				continue
			}
			part, ok := constructs(f)
			if !ok {
				t.Errorf("%s: Agent.%s does more than make a part: put it on the type whose job it is", fset.Position(f.Pos()), f.Name.Name)
			}
			made[part] = true
		}
	}
	for _, file := range files {
		for n := range ast.Preorder(file) {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				continue
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range fields.Fields.List {
				if isAgent(field.Type) {
					t.Errorf("%s: %s holds an Agent: hold what it uses", fset.Position(field.Pos()), spec.Name.Name)
				}
			}
			if n := fields.Fields.NumFields(); made[spec.Name.Name] && n > maxFields {
				t.Errorf("%s: %s has %d fields: it does more than one job", fset.Position(spec.Pos()), spec.Name.Name, n)
			}
		}
	}
	if len(made) == 0 {
		t.Error("no part is made: the test looks at nothing")
	}
}

// sources parses the files of this package, tests left out.
func sources(t *testing.T) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := fs.Glob(os.DirFS("."), "*.go")
	check(t, err)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		check(t, err)
		files = append(files, file)
	}
	return fset, files
}

// isAgent reports whether a type is Agent or a pointer to it.
func isAgent(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "Agent"
}

// constructs reports whether a method only returns one struct literal, or its
// address, and of which type.
func constructs(f *ast.FuncDecl) (part string, ok bool) {
	if len(f.Body.List) != 1 {
		return "", false
	}
	ret, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 {
		return "", false
	}
	made := ret.Results[0]
	if address, ok := made.(*ast.UnaryExpr); ok && address.Op == token.AND {
		made = address.X
	}
	lit, ok := made.(*ast.CompositeLit)
	if !ok {
		return "", false
	}
	if name, ok := lit.Type.(*ast.Ident); ok {
		part = name.Name
	}
	return part, true
}
