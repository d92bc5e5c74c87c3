package listen_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

const bearer = "Bearer " + token

// Every source of wakes takes an idle agent to PREP.
func TestEverySourceWakes(t *testing.T) {
	ways := map[string]func(h *fixture){
		"webhook": func(h *fixture) {
			if code := h.call("POST", "/nudge", `{"from": "backup", "reason": "it failed"}`, "Authorization", bearer); code != http.StatusAccepted {
				h.t.Fatalf("answered %d", code)
			}
		},
		"webhook by handle": func(h *fixture) {
			if code := h.call("POST", "/nudge/@"+handle, "", "Authorization", bearer); code != http.StatusAccepted {
				h.t.Fatalf("answered %d", code)
			}
		},
		"nudge":     func(h *fixture) { check(h.t, h.agent.Ring("test", "")) },
		"mesh ring": func(h *fixture) { check(h.t, h.peer.Nudge(h.t.Context(), handle, "", "")) },
		"mesh message": func(h *fixture) {
			_, err := h.peer.Send(h.t.Context(), mesh.Message{To: handle, Text: "hello"})
			check(h.t, err)
		},
		"mail": func(h *fixture) { h.receive("one") },
		"file": func(h *fixture) {
			tmp := filepath.Join(h.t.TempDir(), "n")
			check(h.t, os.WriteFile(tmp, []byte("the disk is full\n"), 0o600))
			check(h.t, os.Rename(tmp, h.agent.Store.Path(filepath.Join(store.NudgesDir, "n"))))
		},
	}
	for name, ring := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.listen()
			ring(h)
			h.untilPhase(state.PREP)
		})
	}
}

// nudged counts the nudges in the history.
func (h *fixture) nudged() int {
	n := 0
	for l, err := range h.agent.Store.History() {
		check(h.t, err)
		if l.Kind == state.LineNudge {
			n++
		}
	}
	return n
}

// A hundred nudges during a poll cause one more poll.
func TestBurstIsOnePoll(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.listen()
	gate := make(chan struct{})
	h.mesh.hold.Store(&gate)
	before := h.mesh.looks.Load()
	check(t, h.agent.Ring("first", ""))
	for h.mesh.looks.Load() == before {
		// Wait until the poll is held. Nothing signals that.
		<-time.After(time.Millisecond)
	}
	for range 100 {
		if code := h.call("POST", "/nudge", "", "Authorization", bearer); code != http.StatusAccepted {
			t.Fatalf("answered %d", code)
		}
	}
	h.mesh.hold.Store(nil)
	close(gate)
	h.until("all nudges", func(state.State) bool { return h.nudged() == 101 })
	// The poll reads the mailbox once more at its end, and the listener polls again.
	if n := h.mesh.looks.Load() - before; n > 3 {
		t.Errorf("%d polls", n)
	}
}

// A listener handles the wakes that came while no listener was running.
func TestListenerFindsEarlierWakes(t *testing.T) {
	for name, ring := range map[string]func(h *fixture){
		"nudge": func(h *fixture) { check(h.t, h.agent.Ring("test", "")) },
		"mesh":  func(h *fixture) { check(h.t, h.peer.Nudge(h.t.Context(), handle, "", "")) },
		"mail":  func(h *fixture) { h.receive("one") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.listen()()
			ring(h)
			h.listen()
			h.untilPhase(state.PREP)
		})
	}
}

func TestSecondListenerExits(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.listen()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer web.Close()
	l := &listen.Listener{Agents: []*cycle.Agent{h.agent}, Web: web, Logf: h.logf}
	if err := l.Run(t.Context()); !errors.Is(err, listen.ErrRunning) {
		t.Errorf("a second listener: %v", err)
	}
}

// A mesh that was down gets our wake address again.
func TestMeshReconnects(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.mesh.down.Store(true)
	h.listen()
	h.mesh.down.Store(false)
	check(t, h.peer.Nudge(t.Context(), handle, "", ""))
	h.untilPhase(state.PREP)
}

func TestNudgesFolderMadeAgain(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.listen()
	check(t, os.RemoveAll(h.agent.Store.Path(store.NudgesDir)))
	check(t, h.agent.Ring("test", ""))
	h.untilPhase(state.PREP)
}

// Two agents that share a mailbox are both woken.
func TestSeveralAgents(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other := h.newAgent(peer)
	_, err := other.Poll(t.Context(), cycle.PollOptions{})
	check(t, err)
	h.listen(func(l *listen.Listener) { l.Agents = append(l.Agents, other) })
	h.receive("one")
	h.untilPhase(state.PREP)
	if got := h.call("POST", "/nudge", "", "Authorization", bearer); got != http.StatusNotFound {
		t.Errorf("without a handle: answered %d", got)
	}
	if got := h.call("POST", "/nudge/"+peer, "", "Authorization", bearer); got != http.StatusAccepted {
		t.Errorf("answered %d", got)
	}
	if s, err := h.agent.Store.Read(); err != nil || s.Phase != state.PREP {
		t.Errorf("%s, %v", s.Phase, err)
	}
}

// A listener fires a prompt of the clock in the first scan after its time.
func TestPromptFiresOnTime(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	due := time.Now().Add(time.Second)
	next := func(after time.Time, _ *time.Location) time.Time {
		if after.Before(due) {
			return due
		}
		return due.Add(24 * time.Hour)
	}
	h.agent.ClockPrompts = []cycle.ClockPrompt{{Name: "morning", Text: "Read the CI.", Kind: state.KindAlways}}
	h.agent.Policy.Prompts = []state.PromptPolicy{{Name: "morning", At: "once", Next: next}}
	_, err := h.agent.Poll(t.Context(), cycle.PollOptions{})
	check(t, err)
	h.listen(func(l *listen.Listener) { l.ScanEvery = 100 * time.Millisecond })
	h.until("the firing", func(s state.State) bool { return len(s.Inbox) == 1 && s.Inbox[0].From == "morning" })
	if time.Now().Before(due) {
		t.Error("it came before its time")
	}
}
