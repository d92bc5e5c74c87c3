package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/cycle/view"
	"agentstateloop/mesh"
)

// TestErrorDocumentCode checks the code for each kind of error, also for an error that is
// wrapped or joined with another.
func TestErrorDocumentCode(t *testing.T) {
	for _, test := range []struct {
		err  error
		want errorCode
	}{
		{terminal.Usagef("", "wrong"), codeUsage},
		{&config.Error{Path: "agent.toml", Text: "is missing"}, codeConfig},
		{cycle.ErrNoMesh, codeConfig},
		{&sourceError{failed: []string{"mail: refused"}}, codeSource},
		{errors.Join(nil, &sourceError{}), codeSource},
		{&waitError{errors.New("HALT"), exitRefused}, codeRefused},
		{&waitError{errors.New("late"), exitTimeout}, codeTimedOut},
		{&waitError{errors.New("red"), exitFailed}, codeFailed},
		{cycle.ErrLateReport, codeRefused},
		{cycle.ErrBusy, codeBusy},
		{listen.ErrRunning, codeBusy},
		{cycle.ErrBeingSent, codeBusy},
		{terminal.WithHint(view.ErrNoMessage, "see inbox list"), codeNotFound},
		{cycle.ErrNothing, codeEmpty},
		{cycle.ErrStale, codeStale},
		{&mesh.Error{Code: 401}, codeMesh},
		{context.DeadlineExceeded, codeTimedOut},
		{fmt.Errorf("poll: %w", context.Canceled), codeInterrupted},
		{silentError{cycle.ErrInterrupted}, codeInterrupted},
		{coded(codeNotAllowed, terminal.WithHint(errors.New("no"), "ask")), codeNotAllowed},
		{&relayedError{text: "no", kind: "stale", code: exitError}, codeStale},
		{&relayedError{text: "no", kind: "of another version", code: exitBusy}, codeBusy},
		{&relayedError{text: "no", code: exitError}, codeOther},
		{errors.New("anything"), codeOther},
	} {
		got := outputOf(test.err)
		if got.Code != test.want || got.Message == "" && test.err.Error() != "" {
			t.Errorf("%v: %+v, want the code %s", test.err, got, test.want)
		}
	}
	if outputOf(nil) != nil {
		t.Error("no error has a document")
	}
}

// TestInterruptedInJSON checks that a command that a signal ends prints an error document, also
// with --quiet.
func TestInterruptedInJSON(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, flags := range []string{"--json", "--json --quiet"} {
		var out, errs bytes.Buffer
		p := testProgram()
		p.out.Stdout, p.out.Stderr = &out, &errs
		path := writeConfig(t, smallConfig+"[schedule]\nmode = \"none\"\n")
		code := p.run(ctx, append([]string{name, "--config", path, "poll"}, strings.Fields(flags)...))
		if code != exitError || !strings.HasPrefix(out.String(), `{"error":{"code":"interrupted","message":"`) {
			t.Errorf("%s: exit code %d, standard output %s, standard error %s", flags, code, &out, &errs)
		}
	}
}

// TestWantsJSON checks that --json counts at every place of a flag, also on a wrong command line.
func TestWantsJSON(t *testing.T) {
	app := testProgram().app()
	for args, want := range map[string]bool{
		"": false, "--json": true, "status --json": true, "--json=true poll": true, "-json poll": true, "poll --json=false": false,
		"pol --json": true, "poll --bogus --json": true, "poll --bogus=1 --json": true, "inbox --json": true, "poll --linger --json": false,
		"nudge --reason --json": false, "nudge --reason x --json": true, "tell -- --json": false, "tell --json -- x": true, "poll --linger 5 --json": true,
		"help poll --json": true, "--bogus --json": true, "poll --json=maybe": true, "tell json": false,
	} {
		if got := wantsJSON(app, strings.Fields(args)); got != want {
			t.Errorf("wantsJSON(%q) = %v", args, got)
		}
	}
}
