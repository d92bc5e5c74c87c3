package commands

import (
	"bytes"
	"errors"
	"log"
	"strings"
	"testing"
)

// TestLibraryLogIsRedacted: net/http prints what a server said out of turn, and a
// handler's panic; not with a secret.
func TestLibraryLogIsRedacted(t *testing.T) {
	defer log.SetOutput(log.Writer())
	path := writeConfig(t, strings.Replace(smallConfig, "[turn]", "state_dir = \"state\"\n[turn]", 1)+"[mesh]\nurl = \"http://127.0.0.1:1\"\ntoken_env = \"TOKEN\"\n")
	var out, errs bytes.Buffer
	args := []string{name, "--config", path, "status"}
	if code := Run(t.Context(), args, nil, &out, &errs, []string{"TOKEN=mesh-canary-4711"}); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, &errs)
	}
	log.Print("the server said mesh-canary-4711")
	if told := errs.String(); !strings.HasSuffix(told, " the server said ***\n") {
		t.Errorf("told: %s", told)
	}
}

// TestCrashReportIsRedacted: a crash that repeats a secret is told without it, with its stack,
// and is an error like any other.
func TestCrashReportIsRedacted(t *testing.T) {
	var out, errs bytes.Buffer
	p := testProgram()
	p.out.Stdout, p.out.Stderr = &out, &errs
	p.loader.Secrets.Learn("imap", "imap-canary-4711")
	p.loader.Home = func() (string, error) { panic(errors.New("the server said imap-canary-4711")) }
	code := p.run(t.Context(), []string{name, "--config", writeConfig(t, smallConfig), "status"})
	told := errs.String()
	if code != exitError || !strings.HasPrefix(told, "agentstateloop: error: internal: the server said ***\n") ||
		!strings.Contains(told, "TestCrashReportIsRedacted") || strings.Contains(out.String()+told, "canary") {
		t.Errorf("exit code %d\n%s%s", code, &out, told)
	}
}
