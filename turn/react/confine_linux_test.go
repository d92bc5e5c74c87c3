package react_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/turn/react"
)

// A confined program cannot reach a service of this machine that would run something
// for it. It signals no other process and has no capability, not even under root.
func TestExecReachesNoService(t *testing.T) {
	r, _ := folders(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(r.Workdir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	tool, err := react.Shell{Folders: r, Self: self, Env: os.Environ(), Path: "/usr/bin:/bin:" + filepath.Dir(self), Timeout: time.Minute}.Tool()
	if err != nil {
		t.Fatal(err)
	}
	exec := func(argv ...string) (string, error) {
		args, err := json.Marshal(map[string][]string{"argv": argv})
		if err != nil {
			t.Fatal(err)
		}
		return call(t, []react.Tool{tool}, "exec", string(args))
	}
	got, err := exec("grep", "CapEff", "/proc/self/status")
	if err != nil && strings.Contains(err.Error(), "Landlock") {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if err != nil || !strings.HasSuffix(got, "\t0000000000000000") {
		t.Errorf("capabilities: %q, %v", got, err)
	}
	if _, err := exec(self, "__dial", "unix", socket.Addr().String()); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a local socket: %v", err)
	}
	if got, err := exec("sh", "-c", "echo out; echo err >&2"); err != nil || got != "out\nerr" {
		t.Errorf("what it prints: %q, %v", got, err)
	}
	if _, err := exec(self, "__dial", "tcp", web.Addr().String()); err != nil {
		t.Errorf("the network: %v", err)
	}
	if got, err := exec("sh", "-c", "cat /proc/$PPID/environ"); err == nil || !strings.Contains(err.Error(), "denied") && !strings.Contains(err.Error(), "not permitted") {
		t.Errorf("our environment: %q, %v", got, err)
	}
	if !landlockKnowsSignals() {
		t.Log("this kernel confines no signals")
		return
	}
	if _, err := exec("sh", "-c", "kill -0 $PPID"); err == nil || !strings.Contains(err.Error(), "not permitted") {
		t.Errorf("a signal: %v", err)
	}
}

// landlockKnowsSignals reports whether the kernel's Landlock has version 6.
func landlockKnowsSignals() bool {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) // 1: LANDLOCK_CREATE_RULESET_VERSION
	return errno == 0 && version >= 6
}
