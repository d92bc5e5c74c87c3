// Command mutants breaks the program on purpose, one break at a time, and prints
// which test notices. Each break is a file next to this one:
//
//	what: the reply gets the id of the attempt, not of the turn
//	file: cycle/deliver.go
//	test: ./cycle
//	-- old --
//	"reply." + w.head.TurnID
//	-- new --
//	"reply." + strconv.Itoa(int(w.head.Epoch))
//
// The old text must occur in the file exactly once. "test" is the argument of go
// test; the default is the simulator. Run it in the root of the module:
//
//	AGENTSTATELOOP_REQUIRE_REAL=1 go run ./cycle/simulator/mutants [-only NAME]
//
// Without the variable the tests are shorter, and may miss a break. It works on a copy of the tree. It exits 1 if no test notices a break, or if a
// break no longer fits the code.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// simulator is the test that must notice unless the break names another.
const simulator = "./cycle/simulator -seeds 1500 -noshrink"

func main() {
	only := flag.String("only", "", "try only the breaks whose names contain this")
	flag.Parse()
	missed, err := run(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	if missed > 0 {
		os.Exit(1)
	}
}

// mutant is one deliberate break.
type mutant struct {
	name, what, file, test string
	old, new               string
}

func run(only string) (missed int, err error) {
	names, err := filepath.Glob("cycle/simulator/mutants/*.txt")
	if err != nil || len(names) == 0 {
		return 0, errors.Join(err, errors.New("no breaks found: run it in the root of the module"))
	}
	tree, err := copyTree()
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tree)
	caught := 0
	for _, name := range names {
		m, err := read(name)
		if err != nil {
			return missed, err
		}
		if !strings.Contains(m.name, only) {
			continue
		}
		began := time.Now()
		by, err := m.try(tree)
		if err != nil {
			by = "NOT TRIED: " + err.Error()
		}
		if by == "" {
			by = "NOT CAUGHT"
		}
		if by == "NOT CAUGHT" || err != nil {
			missed++
		} else {
			caught++
		}
		fmt.Printf("%-28s %4.0f s  %-60s %s\n", m.name, time.Since(began).Seconds(), m.what, by)
	}
	fmt.Printf("%d caught, %d not\n", caught, missed)
	return missed, nil
}

// copyTree copies the files of the module that git tracks to a temporary folder.
func copyTree() (string, error) {
	tree, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return "", err
	}
	list, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		return tree, fmt.Errorf("list files: %w", err)
	}
	for name := range bytes.SplitSeq(bytes.TrimSuffix(list, []byte{0}), []byte{0}) {
		data, err := os.ReadFile(string(name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted but not committed
		}
		if err != nil {
			return tree, err
		}
		to := filepath.Join(tree, string(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return tree, err
		}
		if err := os.WriteFile(to, data, 0o700); err != nil {
			return tree, err
		}
	}
	return tree, nil
}

func read(name string) (mutant, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(name), ".txt"), test: simulator}
	head, rest, ok := strings.Cut(string(data), "-- old --\n")
	old, new, ok2 := strings.Cut(rest, "-- new --\n")
	if !ok || !ok2 {
		return m, fmt.Errorf("%s: a head, -- old -- and -- new -- are required", name)
	}
	m.old, m.new = strings.TrimSuffix(old, "\n"), strings.TrimSuffix(new, "\n")
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "what":
			m.what = value
		case "file":
			m.file = value
		case "test":
			m.test = value
		}
	}
	return m, nil
}

// The output of a test that fails: the broken promise, or else the name of the test.
var (
	promise = regexp.MustCompile(`seed \d+: promise \w+: [^\n]{0,80}`)
	failure = regexp.MustCompile(`--- FAIL: \S+|DATA RACE|panic: [^\n]{0,60}`)
)

// try applies the break, runs its test and undoes the break. It returns what noticed
// the break, or "".
func (m mutant) try(tree string) (by string, err error) {
	path := filepath.Join(tree, m.file)
	whole, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(whole), m.old); n != 1 {
		return "", fmt.Errorf("the old text occurs %d times in %s", n, m.file)
	}
	defer os.WriteFile(path, whole, 0o700)
	if err := os.WriteFile(path, []byte(strings.Replace(string(whole), m.old, m.new, 1)), 0o700); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "./...")
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the break does not build: %s", bytes.TrimSpace(out))
	}
	test := exec.Command("go", append([]string{"test", "-count=1", "-failfast", "-timeout", "20m"}, strings.Fields(m.test)...)...)
	test.Dir = tree
	out, err := test.CombinedOutput()
	if err == nil {
		return "", nil
	}
	for _, kind := range []*regexp.Regexp{promise, failure} {
		if found := kind.Find(out); found != nil {
			return string(found), nil
		}
	}
	return "", fmt.Errorf("go test: %s", bytes.TrimSpace(out[max(0, len(out)-300):]))
}
