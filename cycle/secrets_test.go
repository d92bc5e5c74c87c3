package cycle_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit"
	"agentstateloop/state/store"
)

// canary is the secret that every part repeats here.
const canary = "canary-of-the-house-4711"

// An error may repeat a secret. No reason of an event takes it into the state,
// the history, the log or a mail.
func TestReasonsHideSecrets(t *testing.T) {
	t.Parallel()
	said := "you said " + canary
	for name, fail := range map[string]func(*fixture){
		"a mesh that cannot be read": func(h *fixture) {
			h.meshSays(http.StatusInternalServerError, said)
			h.pollAfter(time.Minute)
		},
		"a login that is refused": func(h *fixture) {
			h.meshSays(http.StatusUnauthorized, said)
			h.pollAfter(time.Minute)
		},
		"a mail that is refused": func(h *fixture) {
			refuse := func(string) error { return errors.New(said) }
			h.onRcpt.Store(&refuse)
			h.receive(letter{})
			h.pollAfter(time.Minute)
		},
		"a crontab that cannot be written": func(h *fixture) {
			h.agent.Schedule.Table.Command += ".fails"
			check(h.t, testkit.WriteProgram(h.agent.Schedule.Table.Command, "#!/bin/sh\necho '"+said+"' >&2\nexit 1\n"))
			h.pollAfter(time.Hour)
		},
		"an agent that fails": func(h *fixture) {
			h.script("#!/bin/sh\necho '" + said + "' >&2\nexit 1\n")
			h.tell("hello")
		},
		"an agent whose own login is refused": func(h *fixture) {
			h.script("#!/bin/sh\necho '" + said + "' >&2\nexit 77\n")
			h.tell("hello")
		},
		"a summary that fails": func(h *fixture) {
			h.tell("hello")
			h.agent.Summary = h.summarizeWith("echo '" + said + "' >&2\nexit 1\n")
			if _, err := h.agent.Compact(h.t.Context(), time.Second); err == nil {
				h.t.Error("a summary was made")
			}
		},
		"a summary": func(h *fixture) {
			h.tell("hello")
			h.agent.Summary = h.summarizeWith("echo '" + said + "'\n")
			if _, err := h.agent.Compact(h.t.Context(), time.Second); err != nil {
				h.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.agent.Secrets = new(secret.Known)
			h.agent.Secrets.Learn("test", canary)
			fail(h)
			told := h.stateFiles()
			wantWords(t, told, "you said ***")
			if strings.Contains(told, canary) {
				t.Errorf("the secret is told:\n%s", told)
			}
		})
	}
}

// tell sends the agent a message, and runs it.
func (h *fixture) tell(text string) {
	h.t.Helper()
	h.queue(text)
	h.pollAfter(time.Minute)
}

// meshSays makes the mesh answer everything with this error.
func (h *fixture) meshSays(code int, text string) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error":%q}`, text)
	})
	h.onMesh.Store(&answer)
}

// stateFiles returns all that the agent's directory holds, except what the agent's
// program wrote and its context, which are not ours to search.
func (h *fixture) stateFiles() string {
	h.t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(h.agent.Store.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == store.TurnsDir {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s:\n%s\n", d.Name(), data)
		return err
	})
	check(h.t, err)
	return all.String()
}
