package commands

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/internal/secret"
)

// testLoader has a home and a path of its own.
func testLoader() *config.Loader {
	return &config.Loader{
		Home:       func() (string, error) { return "/home/you", nil },
		Executable: func() (string, error) { return "/usr/local/bin/agentstateloop", nil },
		Now:        time.Now,
		Secrets:    new(secret.Known),
	}
}

func testProgram() *program { return &program{loader: testLoader()} }

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const smallConfig = `[agent]
handle = "goulard3120"
operator = ["You <you@example.com>", "you@example.net"]
[turn]
command = ["./reply.sh"]
`
