package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
)

// testLoader returns a loader with a fixed home and program path.
func testLoader() *config.Loader {
	return &config.Loader{
		Account:    func() (account.Account, error) { return account.Account{Home: "/home/you", Known: true}, nil },
		Executable: func() (string, error) { return "/usr/local/bin/agentstateloop", nil },
		Now:        time.Now,
		Secrets:    new(secret.Known),
	}
}

// testProgram returns the program with testLoader, and without any output.
func testProgram() *program { return &program{loader: testLoader()} }

// runInProcess runs a command of the program in this process. It returns the exit code and all
// that was printed.
func runInProcess(t *testing.T, p *program, args ...string) (code int, output string) {
	t.Helper()
	var out bytes.Buffer
	p.out.Stdout, p.out.Stderr = &out, &out
	code = p.run(t.Context(), append([]string{name}, args...))
	return code, out.String()
}

// writeConfig writes text to an agent.toml in a new folder, and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// smallConfig is a complete configuration without mail, mesh or crontab settings.
const smallConfig = `[agent]
handle = "goulard3120"
operator = ["You <you@example.com>", "you@example.net"]
[turn]
command = ["./reply.sh"]
`

// forgetFile removes from the state in dir the identity of its own file, so that a copy of the
// directory does not count as one.
func forgetFile(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"state.json", "state.json.prev"} {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, regexp.MustCompile(`,"file":"[0-9]+\.[0-9]+"`).ReplaceAllString(string(data), ""))
	}
}
