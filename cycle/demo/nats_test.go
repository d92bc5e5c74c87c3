package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/fleettest"
)

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// noted returns a program that notes its process id in the file, and is then the server.
func noted(t *testing.T, server string) (program, file string) {
	t.Helper()
	dir := t.TempDir()
	program, file = filepath.Join(dir, "nats-server"), filepath.Join(dir, "pids")
	if err := testkit.WriteProgram(program, fmt.Sprintf("#!/bin/sh\necho $$ >>%s\n%s\n", file, server)); err != nil {
		t.Fatal(err)
	}
	return program, file
}

// haveEnded checks that so many processes were noted, and that none of them is there. One
// that is, is killed.
func haveEnded(t *testing.T, file string, want int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pids := strings.Fields(string(text))
	if len(pids) != want {
		t.Errorf("%d servers were started, want %d", len(pids), want)
	}
	for _, p := range pids {
		pid, err := strconv.Atoi(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the server %d is still there: %v", pid, err)
		}
	}
}

// TestDemoOverNATS checks that the story plays to its end, and that its servers
// end with it.
func TestDemoOverNATS(t *testing.T) {
	t.Parallel()
	program, pids := noted(t, "exec "+fleettest.Program(t)+` "$@"`)
	var out bytes.Buffer
	if err := RunNATS(t.Context(), &out, self(t), program); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
	haveEnded(t, pids, 2)
}

// stopsAt is a writer that calls stop when it gets a text.
type stopsAt struct {
	text string
	stop func()
}

func (w stopsAt) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte(w.text)) {
		w.stop()
	}
	return len(text), nil
}

// TestInterruptedDemoEndsServer checks that no server stays when the demo is
// interrupted.
func TestInterruptedDemoEndsServer(t *testing.T) {
	t.Parallel()
	program, pids := noted(t, "exec "+fleettest.Program(t)+` "$@"`)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := RunNATS(ctx, stopsAt{"it waits for the doorbell", stop}, self(t), program)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	haveEnded(t, pids, 1)
}

// TestServerDoesNotStart checks that the demo ends with what the server has said.
func TestServerDoesNotStart(t *testing.T) {
	t.Parallel()
	program, pids := noted(t, "echo 'unknown field \"sync_interval\"' >&2; exit 1")
	err := RunNATS(t.Context(), new(bytes.Buffer), self(t), program)
	if err == nil || !strings.Contains(err.Error(), `it ended: unknown field "sync_interval"`) {
		t.Errorf("the error is %v", err)
	}
	haveEnded(t, pids, 1)
}
