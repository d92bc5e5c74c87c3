// Command compiles checks that the program and its tests compile on each platform of a release,
// without the minutes that the compiler would need: it only checks the types, and in libraries only
// those of declarations. The tests have numbers that a platform of 32 bits cannot hold, and are left
// out there.
//
//	go run .ci/compiles.go linux/arm freebsd/amd64
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	for _, platform := range os.Args[1:] {
		goos, arch, _ := strings.Cut(platform, "/")
		if err := check(goos, arch); err != nil {
			fmt.Fprintf(os.Stderr, "compiles: %s: %v\n", platform, err)
			os.Exit(1)
		}
		fmt.Println(platform)
	}
}

// listed is a package of go list.
type listed struct {
	Dir, ImportPath string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
}

// check checks the packages, each after those that it imports.
func check(goos, arch string) error {
	what := []string{"-test", "./..."}
	if arch == "arm" {
		what = []string{"."}
	}
	list := exec.Command("go", append([]string{"list", "-deps", "-tags", "urfave_cli_no_docs,nethttpomithttp2", "-json=Dir,ImportPath,GoFiles,ImportMap,Module"}, what...)...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return err
	}
	known := map[string]*types.Package{"unsafe": types.Unsafe}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // its main is generated
			continue
		}
		if known[p.ImportPath], err = checkPackage(p, arch, known); err != nil {
			return err
		}
	}
}

func checkPackage(p listed, arch string, known map[string]*types.Package) (*types.Package, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	ours := p.Module != nil && p.Module.Main
	conf := types.Config{
		IgnoreFuncBodies: !ours,
		Sizes:            types.SizesFor("gc", arch),
		Importer: imports(func(path string) (*types.Package, error) {
			if to, ok := p.ImportMap[path]; ok {
				path = to
			}
			if pkg := known[path]; pkg != nil {
				return pkg, nil
			}
			return nil, fmt.Errorf("%s is not listed", path)
		}),
	}
	return conf.Check(p.ImportPath, fset, files, nil)
}

type imports func(path string) (*types.Package, error)

func (i imports) Import(path string) (*types.Package, error) { return i(path) }
