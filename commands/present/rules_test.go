package present

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPackageOnlyFormatsData checks that the package cannot read files and flags, and cannot print.
func TestPackageOnlyFormatsData(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if slices.Contains([]string{`"os"`, `"io"`, `"io/fs"`, `"bufio"`, `"flag"`, `"github.com/urfave/cli/v2"`}, i.Path.Value) {
				t.Errorf("%s imports %s", file, i.Path.Value)
			}
		}
	}
}
