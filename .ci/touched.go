// Command touched prints the tests that the last commits add or change, one call of go
// test per line: the package and the value of -run.
//
//	go run .ci/touched.go [BASE]
//
// BASE is the commit before the change. The default is the newest one that is
// three hours older than HEAD. A changed story of testscript, and a changed transcript of the
// machine, count as the subtest that reads them. Tests of real programs (TestReal…) are
// left out: cron alone makes each wait for the next minute.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	base := ""
	if len(os.Args) > 1 {
		base = os.Args[1]
	}
	if err := run(base); err != nil {
		fmt.Fprintln(os.Stderr, "touched:", err)
		os.Exit(1)
	}
}

// subtests are the tests that read one file of a folder in each subtest.
var subtests = map[string]string{
	"commands/testdata/script": "TestScript",
	"state/testdata":           "TestTranscripts",
}

func run(base string) error {
	if base == "" {
		var err error
		if base, err = threeHoursBefore(); err != nil {
			return err
		}
	}
	lines, err := changedLines(base)
	if err != nil {
		return err
	}
	calls := map[string][]string{} // names of tests by package and the start of the pattern
	for _, file := range slices.Sorted(maps.Keys(lines)) {
		dir, name := path.Split(file)
		dir = path.Clean(dir)
		switch test, ok := subtests[dir]; {
		case ok:
			key := "./" + strings.SplitN(dir, "/", 2)[0] + " ^" + test + "$/"
			calls[key] = append(calls[key], regexp.QuoteMeta(strings.TrimSuffix(name, path.Ext(name))))
		case strings.HasSuffix(name, "_test.go"):
			tests, err := testsAt(file, lines[file])
			if err != nil {
				return err
			}
			tests = slices.DeleteFunc(tests, func(name string) bool { return strings.HasPrefix(name, "TestReal") })
			if len(tests) > 0 {
				calls["./"+dir+" "] = append(calls["./"+dir+" "], tests...)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(calls)) {
		fmt.Printf("%s^(%s)$\n", key, strings.Join(calls[key], "|"))
	}
	return nil
}

func threeHoursBefore() (string, error) {
	at, err := git("log", "-1", "--format=%ct")
	if err != nil {
		return "", err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return "", err
	}
	before := time.Unix(seconds, 0).Add(-3 * time.Hour).Format(time.RFC3339)
	base, err := git("rev-list", "-1", "--before="+before, "HEAD")
	if err == nil && base == "" {
		err = fmt.Errorf("no commit is older than %s: name one", before)
	}
	return base, err
}

func git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// changedLines returns the lines that were added or changed since base, by file.
func changedLines(base string) (map[string][]int, error) {
	diff, err := git("diff", "--unified=0", "--diff-filter=d", "--no-color", base, "HEAD")
	if err != nil {
		return nil, err
	}
	hunk := regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)
	lines, file := map[string][]int{}, ""
	for line := range strings.Lines(diff) {
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = strings.TrimSpace(name)
		}
		m := hunk.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		first, _ := strconv.Atoi(m[1])
		count := 1
		if m[2] != "" {
			count, _ = strconv.Atoi(m[2])
		}
		for i := range max(count, 1) { // a removal counts at the line before it
			lines[file] = append(lines[file], first+i)
		}
	}
	return lines, nil
}

// testsAt returns the tests of a file in which the lines are.
func testsAt(file string, lines []int) ([]string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var tests []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Name.Name == "TestMain" || !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
			continue
		}
		from, to := fset.Position(fn.Pos()).Line, fset.Position(fn.End()).Line
		if slices.ContainsFunc(lines, func(n int) bool { return from <= n && n <= to }) {
			tests = append(tests, fn.Name.Name)
		}
	}
	return tests, nil
}
