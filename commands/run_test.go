package commands

import (
	"bytes"
	"errors"
	"log"
	"strings"
	"testing"

	"agentstateloop/internal/account"
)

// TestLibraryLogIsRedacted checks that secrets are redacted in what libraries log.
// net/http logs unexpected bytes from a server and the panic of a handler.
func TestLibraryLogIsRedacted(t *testing.T) {
	defer log.SetOutput(log.Writer())
	path := writeConfig(t, strings.Replace(smallConfig, "[turn]", "state_dir = \"state\"\n[turn]", 1)+"[mesh]\nurl = \"http://127.0.0.1:1\"\ntoken_env = \"TOKEN\"\n")
	var out, errs bytes.Buffer
	args := []string{name, "--config", path, "status"}
	if code := Run(t.Context(), args, nil, &out, &errs, []string{"TOKEN=mesh-canary-4711"}); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, &errs)
	}
	log.Print("the server said mesh-canary-4711")
	if stderr := errs.String(); !strings.HasSuffix(stderr, " the server said ***\n") {
		t.Errorf("stderr: %s", stderr)
	}
}

// TestCrashInJSON checks that a panic has an error document, without the secret in it.
func TestCrashInJSON(t *testing.T) {
	var out, errs bytes.Buffer
	p := testProgram()
	p.out.Stdout, p.out.Stderr = &out, &errs
	p.loader.Secrets.Learn("imap", "imap-canary-4711")
	p.loader.Account = func() (account.Account, error) { panic(errors.New("the server said imap-canary-4711")) }
	code := p.run(t.Context(), []string{name, "--config", writeConfig(t, smallConfig), "status", "--json"})
	want := `{"error":{"code":"internal","message":"internal: the server said ***","hint":"nothing recorded is lost; please report this","at":null}}` + "\n"
	if code != exitError || out.String() != want {
		t.Errorf("exit code %d, standard output %s, want %s", code, &out, want)
	}
	if err := readSchemas(t).named("error.json").validate(out.Bytes()); err != nil {
		t.Error(err)
	}
}

// TestCrashReportIsRedacted checks that a panic is printed with its stack and
// without the secret in its value, and that the exit code is 1.
func TestCrashReportIsRedacted(t *testing.T) {
	var out, errs bytes.Buffer
	p := testProgram()
	p.out.Stdout, p.out.Stderr = &out, &errs
	p.loader.Secrets.Learn("imap", "imap-canary-4711")
	p.loader.Account = func() (account.Account, error) { panic(errors.New("the server said imap-canary-4711")) }
	code := p.run(t.Context(), []string{name, "--config", writeConfig(t, smallConfig), "status"})
	stderr := errs.String()
	if code != exitError || !strings.HasPrefix(stderr, "agentstateloop: error: internal: the server said ***\n") ||
		!strings.Contains(stderr, "TestCrashReportIsRedacted") || strings.Contains(out.String()+stderr, "canary") {
		t.Errorf("exit code %d\n%s%s", code, &out, stderr)
	}
}
