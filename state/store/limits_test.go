package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state"
)

// TestLimits checks each limit of our files at its boundary. Large files are sparse.
func TestLimits(t *testing.T) {
	made := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	limittest.Run(t, []limittest.Limit{
		{Const: "maxState", Max: 268_435_456, Within: func(t *testing.T, n int64) bool { return isUsable(t, stateFile, n) }},
		{Const: "maxState", Max: 268_435_456, Within: func(t *testing.T, n int64) bool { return isUsable(t, prevFile, n) }},
		{Const: "maxHistory", Max: 1_073_741_824, Within: func(t *testing.T, n int64) bool { return isUsable(t, "history-2026-03.jsonl", n) }},
		{Const: "maxKeyFile", Max: 4096, Within: func(t *testing.T, n int64) bool { return isUsable(t, IDKeyFile, n) }},
		{Const: "maxKeyFile", Max: 4096, Within: func(t *testing.T, n int64) bool {
			st := storeWith(t, IDKeyFile, "")
			if _, err := st.IDKey(made); err != nil {
				t.Fatal(err)
			}
			key, _ := os.ReadFile(st.path(IDKeyFile))
			fill(t, st, IDKeyFile, string(key)+strings.Repeat(" ", int(n)-len(key)))
			_, err := st.ReadIDKey()
			return err == nil
		}},
		{Const: "MaxPayload", Max: 134_217_728, Within: func(t *testing.T, n int64) bool { return isUsable(t, "messages/m", n) }},
		{Const: "maxOldMemory", Max: 1_048_576, Within: func(t *testing.T, n int64) bool { return isUsable(t, MemoryFile, n) }},
		{Const: "maxOldMemory", Max: 1_048_576, Within: func(t *testing.T, n int64) bool { return isUsable(t, MemoryPrevFile, n) }},
		{Const: "maxRecord", Max: 16_777_216, Within: func(t *testing.T, n int64) bool { // including its newline
			const line = `{"serial":1,"n":0,"at":"2026-03-02T09:00:00Z","kind":"note","reason":"` + "\"}\n"
			st := storeWith(t, historyName(made), strings.Replace(line, `"}`, strings.Repeat("x", int(n)-len(line))+`"}`, 1))
			for l, err := range st.History() {
				return err == nil && l.Serial == 1
			}
			return false
		}},
		{Const: "maxLog", Max: 1_048_575, Within: func(t *testing.T, n int64) bool { // before a line is added
			st := storeWith(t, logFile, strings.Repeat("x", int(n)))
			check(t, st.Log(made, "a line"))
			_, err := os.Lstat(st.path(logFile + ".1"))
			return errors.Is(err, fs.ErrNotExist)
		}},
		{Const: "MaxMemory", Max: 4096, Within: func(t *testing.T, n int64) bool {
			text, err := storeWith(t, MemoryFile, strings.Repeat("x", int(n))).Memory(state.OperatorPrincipal)
			return err == nil && len(text) == int(n)
		}},
		{Const: "MaxEventText", Max: 65_536, Within: func(t *testing.T, n int64) bool {
			return singleNudge(t, "ci"+MessageSuffix, strings.Repeat("x", int(n))).Fault == ""
		}},
		{Const: "maxNote", Max: 4096, Within: func(t *testing.T, n int64) bool {
			const note = `{"from":"ci"}`
			return singleNudge(t, "ci.json", strings.Repeat(" ", int(n)-len(note))+note).From == "ci"
		}},
		{Const: "longest", Max: 200, Within: func(_ *testing.T, n int64) bool {
			return PayloadName("", strings.Repeat("x", int(n)), "") == strings.Repeat("x", int(n))
		}},
		limittest.Duration("commitPatience", 10*time.Second, 1, func(t *testing.T, d time.Duration) (within bool) {
			st := storeWith(t, "log", "")
			lock, err := st.lockState(t.Context())
			check(t, err)
			defer lock.Unlock()
			synctest.Test(t, func(*testing.T) { // with a fake clock
				began := time.Now()
				_, err := st.lockState(context.Background())
				within = err != nil && d <= time.Since(began)
			})
			return within
		}),
	})
}

// storeWith returns a store whose directory holds a file.
func storeWith(t *testing.T, name, content string) *Store {
	st := &Store{Dir: t.TempDir(), Agent: "goulard3120"}
	if content != "" {
		fill(t, st, name, content)
	}
	return st
}

// fill writes a file.
func fill(t *testing.T, st *Store, name, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(st.path(name)), 0o700)
	if err == nil {
		err = os.WriteFile(st.path(name), []byte(content), 0o600)
	}
	check(t, err)
}

// isUsable reports whether Obstacles accepts a file of n bytes.
func isUsable(t *testing.T, name string, n int64) bool {
	st := storeWith(t, name, "x")
	check(t, os.Truncate(st.path(name), n))
	return len(st.Obstacles(state.State{Received: state.Received{Inbox: []state.Message{{Payload: "messages/m"}}}})) == 0
}

// singleNudge returns what a file in nudges/ says.
func singleNudge(t *testing.T, name, content string) NudgeFile {
	rung, err := readNudges(storeWith(t, filepath.Join(NudgesDir, name), content))
	if err != nil || len(rung) != 1 {
		t.Fatalf("%d nudges, %v", len(rung), err)
	}
	return rung[0]
}
