package commands

import (
	"bytes"
	"errors"
	"log"
	"strings"
	"testing"

	"agentstateloop/internal/account"
)

// TestLibraryLogIsRedacted checks that secrets are redacted in the log of libraries.
// net/http logs unexpected bytes from a server and the panic of a handler.
func TestLibraryLogIsRedacted(t *testing.T) {
	defer log.SetOutput(log.Writer())
	path := writeConfig(t, agentSection+"[turn]\ncommand = [\"./reply.sh\"]\n[mesh]\nurl = \"http://127.0.0.1:1\"\ntoken_env = \"TOKEN\"\n")
	var out, errs bytes.Buffer
	args := []string{name, "--config", path, "status"}
	if code := Run(t.Context(), Build{}, args, nil, &out, &errs, []string{"TOKEN=mesh-canary-4711"}); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, &errs)
	}
	log.Print("the server said mesh-canary-4711")
	if stderr := errs.String(); !strings.HasSuffix(stderr, " the server said ***\n") {
		t.Errorf("stderr: %s", stderr)
	}
}

// TestCrashIsRedacted checks that a panic is printed with its stack, or as an error document, and
// without the secret in its value, and that the exit code is 1.
func TestCrashIsRedacted(t *testing.T) {
	const document = `{"error":{"code":"internal","message":"internal: the server said ***","hint":"nothing recorded is lost; please report this","at":null}}` + "\n"
	for flag, want := range map[string]struct{ stdout, stderr string }{
		"--json=false": {"", "agentstateloop: error: internal: the server said ***\n"},
		"--json":       {document, ""},
	} {
		var out, errs bytes.Buffer
		p := testProgram()
		p.out.Stdout, p.out.Stderr = &out, &errs
		p.loader.Secrets.Learn("imap", "imap-canary-4711")
		p.loader.Account = func() (account.Account, error) { panic(errors.New("the server said imap-canary-4711")) }
		code := p.run(t.Context(), []string{name, "--config", writeConfig(t, smallConfig), "status", flag})
		stderr := errs.String()
		if code != exitError || out.String() != want.stdout || !strings.HasPrefix(stderr, want.stderr) ||
			!strings.Contains(stderr, "TestCrashIsRedacted") || strings.Contains(stderr, "canary") {
			t.Errorf("%s: exit code %d\n%s%s", flag, code, &out, stderr)
		}
	}
	if err := readSchemas(t).named("error.json").validate([]byte(document)); err != nil {
		t.Error(err)
	}
}
