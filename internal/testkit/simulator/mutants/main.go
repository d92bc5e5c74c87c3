// Command mutants breaks the program on purpose, one break at a time, and prints
// which test notices. breaks.txt lists the breaks. Run it in the root of the module:
//
//	go run ./internal/testkit/simulator/mutants              # all breaks
//	go run ./internal/testkit/simulator/mutants -only ack    # those whose names contain "ack"
//	go run ./internal/testkit/simulator/mutants -third HASH  # a third, chosen by the hash of a commit
//	go run ./internal/testkit/simulator/mutants -list fleet.txt
//
// It leaves the tree as it is: an overlay shows the go command the broken file. It
// tries two breaks at a time. It exits 1 if no test notices a break, if a break does
// not build, or if a test fails without any break.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	only := flag.String("only", "", "try only the breaks whose names contain this")
	hash := flag.String("third", "", "try a third of the breaks: a commit's `hash` chooses which")
	list := flag.String("list", listName, "try the breaks of this `file`")
	flag.Parse()
	failed, err := run(*list, *only, *hash)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func run(list, only, hash string) (failed int, err error) {
	breaks, err := readBreaks(filepath.Join("internal", "testkit", "simulator", "mutants", list))
	if err != nil {
		return 0, err
	}
	if hash != "" {
		if breaks, err = third(breaks, hash); err != nil {
			return 0, err
		}
	}
	breaks = slices.DeleteFunc(breaks, func(b mutant) bool { return !strings.Contains(b.name, only) })
	if len(breaks) == 0 {
		return 0, fmt.Errorf("no break has a name with %q", only)
	}
	failed = pairwise(unbroken(breaks), func(test string) error {
		out, err := goTest(test, "")
		if err != nil {
			return fmt.Errorf("%s: FAILS WITHOUT A BREAK:\n%s", test, out)
		}
		return nil
	})
	if failed > 0 {
		return failed, nil
	}
	failed = pairwise(breaks, mutant.try)
	fmt.Printf("%d breaks: %d caught, %d not\n", len(breaks), len(breaks)-failed, failed)
	return failed, nil
}

// pairwise calls do with each item, two at a time, prints the errors and counts them.
func pairwise[T any](items []T, do func(T) error) (failed int) {
	next := make(chan T)
	go func() {
		defer close(next)
		for _, item := range items {
			next <- item
		}
	}()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for item := range next {
				if err := do(item); err != nil {
					fmt.Println(err)
					mu.Lock()
					failed++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// unbroken returns the test commands that run each test of the breaks once: one
// command for all tests that differ only in their -run.
func unbroken(breaks []mutant) []string {
	patterns := map[string][]string{}
	var commands []string
	for _, b := range breaks {
		command, pattern := b.splitTest()
		if patterns[command] == nil {
			commands = append(commands, command)
		}
		if !slices.Contains(patterns[command], pattern) {
			patterns[command] = append(patterns[command], pattern)
		}
	}
	for i, command := range commands {
		commands[i] = command + " -run " + strings.Join(patterns[command], "|")
	}
	return commands
}

// failure matches the sign of a failed test in its output, the most exact first: the broken promise
// of the simulator, a subtest, a test.
var failure = []*regexp.Regexp{
	regexp.MustCompile(`seed \d+: promise \w+: [^\n]{0,80}`),
	regexp.MustCompile(`--- FAIL: [^\s/]+/\S+`),
	regexp.MustCompile(`--- FAIL: \S+|DATA RACE|panic: [^\n]{0,60}`),
}

// noticed returns that sign for the break of a test, or "".
func noticed(out []byte) string {
	for _, kind := range failure {
		if found := kind.Find(out); found != nil {
			return string(found)
		}
	}
	return ""
}

// try runs the test of the break with the broken file, and prints the sign of its failure. It is an
// error if the test passes.
func (b mutant) try() error {
	began := time.Now()
	folder, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	overlay, err := b.overlay(folder)
	if err != nil {
		return fmt.Errorf("%s: NOT TRIED: %w", b.name, err)
	}
	out, err := goTest(b.test, overlay)
	by := noticed(out)
	switch {
	case err == nil:
		return fmt.Errorf("%s: NOT CAUGHT: %s", b.name, b.what)
	case bytes.Contains(out, []byte("[build failed]")), by == "":
		return fmt.Errorf("%s: NOT TRIED: %s", b.name, out)
	}
	fmt.Printf("%-28s %3.0f s  %s\n", b.name, time.Since(began).Seconds(), by)
	return nil
}

// overlay writes the broken file into folder, and the overlay that shows it to the go
// command in the place of the file that it breaks. It returns the name of the overlay.
func (b mutant) overlay(folder string) (string, error) {
	whole, err := os.ReadFile(b.file)
	if err != nil {
		return "", err
	}
	broken, err := b.apply(string(whole))
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(b.file)
	if err != nil {
		return "", err
	}
	instead := filepath.Join(folder, filepath.Base(b.file))
	if err := os.WriteFile(instead, []byte(broken), 0o600); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {path: instead}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(folder, "overlay.json")
	return name, os.WriteFile(name, data, 0o600)
}

// goTest runs a test, with an overlay if it names one. The overlay is in GOFLAGS, so
// that a test which builds the program builds the broken one. A result without an
// overlay may come from the cache.
func goTest(test, overlay string) ([]byte, error) {
	args := append([]string{"test", "-failfast", "-vet=off", "-p=1", "-ldflags=-w", "-timeout=5m"}, strings.Fields(test)...)
	command := exec.Command("go", args...)
	if overlay != "" {
		command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	return command.CombinedOutput()
}
