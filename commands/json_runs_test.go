package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"
)

// jsonRun records the output of one run of the program in a script. A run writes it
// to the folder $TEST_JSON, and the test reads it after the scripts.
type jsonRun struct {
	out  *os.File
	code string // the file for the exit code; it is missing if the process was killed
}

// newJSONRun begins to record a run that may print JSON. It returns nil for any other run, and in a
// sandbox, which does not contain the folder.
func newJSONRun(dir string, args []string) *jsonRun {
	if dir == "" || !slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "json") }) {
		return nil
	}
	out, err := os.CreateTemp(dir, "*.out")
	if err != nil {
		return nil
	}
	base := strings.TrimSuffix(out.Name(), ".out")
	line, _ := json.Marshal(args) // strings cannot fail
	if err := os.WriteFile(base+".args", line, 0o600); err != nil {
		panic(err)
	}
	return &jsonRun{out, base + ".code"}
}

// stdout returns standard output, with a copy in r.
func (r *jsonRun) stdout() io.Writer {
	if r == nil {
		return os.Stdout
	}
	return teeFile{os.Stdout, r.out}
}

// ended records the exit code.
func (r *jsonRun) ended(code int) int {
	if r != nil {
		if err := os.WriteFile(r.code, fmt.Append(nil, code), 0o600); err != nil {
			panic(err)
		}
	}
	return code
}

// teeFile is a file that copies all writes.
type teeFile struct {
	*os.File
	to io.Writer
}

func (f teeFile) Write(text []byte) (int, error) {
	_, _ = f.to.Write(text)
	return f.File.Write(text)
}

// jsonRuns are the runs of all scripts.
type jsonRuns struct {
	app     *cli.App
	schemas *schemas
	seen    map[string]bool // schemas of documents that were printed
	failed  map[string]bool // commands that have failed with JSON
	codes   map[errorCode]bool
}

// checkJSONRuns checks that each run of the scripts with --json printed exactly the document or the
// lines that docs/json describes.
func checkJSONRuns(t *testing.T, dir string) *jsonRuns {
	t.Helper()
	r := &jsonRuns{testProgram().app(), readSchemas(t), map[string]bool{}, map[string]bool{}, map[errorCode]bool{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.args"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".args")
		var args []string
		if err := json.Unmarshal([]byte(readFile(t, file)), &args); err != nil {
			t.Fatal(err)
		}
		out := readFile(t, base+".out")
		code, err := os.ReadFile(base + ".code")
		if err != nil {
			code = []byte("killed")
		}
		if err := r.check(args[1:], string(code), []byte(out)); err != nil {
			t.Errorf("%s (exit %s): %v\n%s", strings.Join(args, " "), code, err, out)
		}
	}
	return r
}

// check checks one run.
func (r *jsonRuns) check(args []string, code string, out []byte) error {
	if !wantsJSON(r.app, args) {
		return nil
	}
	asked := arrangeLoosely(r.app, args)
	command := pathOf(asked)
	s := r.schemas.of(command, asked)
	if code != "0" && code != "killed" {
		r.failed[command] = true
	}
	var found []json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var one json.RawMessage
		if err := dec.Decode(&one); err == io.EOF {
			break
		} else if err != nil && code == "killed" {
			break // in the middle of a line
		} else if err != nil {
			return fmt.Errorf("standard output is not JSON: %w", err)
		}
		found = append(found, one)
	}
	switch {
	case s == nil && code == "0":
		return fmt.Errorf("no schema in docs/json is of the command %q", command)
	case s == nil || !s.stream:
		return r.checkDocument(s, code, found)
	}
	if n := bytes.Count(bytes.TrimSuffix(out, []byte("\n")), []byte("\n")); len(found) > 0 && n != len(found)-1 && code != "killed" {
		return fmt.Errorf("%d values in %d lines: a stream has one a line", len(found), n+1)
	}
	return r.checkStream(s, code, found)
}

// checkDocument checks the output of a command that prints one document.
func (r *jsonRuns) checkDocument(s *schema, code string, found []json.RawMessage) error {
	switch {
	case code == "killed" && len(found) == 0:
		return nil
	case len(found) != 1:
		return fmt.Errorf("%d documents on standard output, want one", len(found))
	case isError(found[0]):
		return r.checkError(code, found[0])
	case s == nil:
		return fmt.Errorf("want an error document")
	case code != "0" && code != "killed" && !s.reportsFailure:
		return fmt.Errorf("the command failed, and printed no error document")
	}
	r.seen[s.file] = true
	return s.validate(found[0])
}

// checkStream checks the output of a command that prints lines.
func (r *jsonRuns) checkStream(s *schema, code string, found []json.RawMessage) error {
	if code != "0" && code != "killed" {
		if len(found) == 0 || !isError(found[len(found)-1]) {
			return fmt.Errorf("the command failed, and its last line is not an error document")
		}
		if err := r.checkError(code, found[len(found)-1]); err != nil {
			return err
		}
		found = found[:len(found)-1]
	}
	for _, line := range found {
		r.seen[s.file] = true
		if err := s.validate(line); err != nil {
			return err
		}
	}
	return nil
}

// checkError checks an error document.
func (r *jsonRuns) checkError(code string, document json.RawMessage) error {
	if code == "0" {
		return fmt.Errorf("the command succeeded, and printed an error document")
	}
	var wrong errorDocument
	if err := json.Unmarshal(document, &wrong); err != nil {
		return err
	}
	r.seen["error.json"], r.codes[wrong.Error.Code] = true, true
	return r.schemas.named("error.json").validate(document)
}

// isError reports whether a value is an error document.
func isError(document json.RawMessage) bool {
	var keys map[string]json.RawMessage
	return json.Unmarshal(document, &keys) == nil && len(keys) == 1 && keys["error"] != nil
}

// pathOf returns a command as it is typed, without the program.
func pathOf(asked *arrangement) string {
	var words []string
	for _, c := range asked.commands {
		words = append(words, c.Name)
	}
	return strings.Join(words, " ")
}

// checkCoverage checks that the scripts had each command print its documents and fail, and saw most
// error codes.
func (r *jsonRuns) checkCoverage(t *testing.T) {
	t.Helper()
	overNATS := []string{"fleet_create.json", "fleet_join.json", "fleet_leave.json", "fleet_release.json", "fleet_take.json"} // TestStoriesOverNATS
	for _, s := range r.schemas.all {
		if s.command != nil && !r.seen[s.file] && !slices.Contains(overNATS, s.file) {
			t.Errorf("no script has `%s` print the document of docs/json/%s", s.usage, s.file)
		}
	}
	for _, command := range leaves(r.app.Commands, nil) {
		if !r.failed[command] {
			t.Errorf("no script has `%s --json` fail", command)
		}
	}
	for _, code := range errorCodes {
		elsewhere := []errorCode{codeTimedOut, codeFailed, codeSource, codeInterrupted, codeInternal} // TestErrorDocumentCode
		if !r.codes[code] && !slices.Contains(elsewhere, code) {
			t.Errorf("no script has a command print the error code %s", code)
		}
	}
}

// leaves returns the commands with an action, as they are typed.
func leaves(commands []*cli.Command, path []string) (all []string) {
	for _, c := range commands {
		here := append(slices.Clone(path), c.Name)
		switch {
		case c.Hidden: // our own processes call it
		case len(c.Subcommands) > 0:
			all = append(all, leaves(c.Subcommands, here)...)
			if c.Action != nil { // prompt
				all = append(all, strings.Join(here, " "))
			}
		default:
			all = append(all, strings.Join(here, " "))
		}
	}
	return all
}

// scriptsRun records which scripts were begun: with -run that may be some of them.
type scriptsRun struct {
	mu    sync.Mutex
	names []string
}

func (s *scriptsRun) add(env *testscript.Env) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"))
}

// all reports whether every script was begun whose file matches a pattern.
func (s *scriptsRun) all(pattern string) bool {
	files, err := filepath.Glob(pattern)
	return err == nil && len(files) > 0 && !slices.ContainsFunc(files, func(file string) bool {
		return !slices.Contains(s.names, strings.TrimSuffix(filepath.Base(file), ".txtar"))
	})
}

// TestEveryCommandHasSchema checks that docs/json has a schema for each command, and only for
// commands.
func TestEveryCommandHasSchema(t *testing.T) {
	commands := leaves(testProgram().app().Commands, nil)
	described := map[string]bool{"": true}
	for _, s := range readSchemas(t).all {
		if s.command == nil {
			continue
		}
		described[*s.command] = true
		if *s.command != "" && !slices.Contains(commands, *s.command) {
			t.Errorf("docs/json/%s is of the command %q, which does not exist", s.file, *s.command)
		}
	}
	for _, command := range commands {
		if !described[command] {
			t.Errorf("docs/json has no schema for `%s --json`", command)
		}
	}
}
