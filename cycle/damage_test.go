package cycle_test

import (
	"bytes"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// damages are what a disk, or a person, can do to a file.
var damages = map[string]func(path string) error{
	"zeroed": func(path string) error {
		info, err := os.Stat(path)
		return errors.Join(err, os.WriteFile(path, make([]byte, info.Size()), 0o600))
	},
	"emptied": func(path string) error { return os.Truncate(path, 0) },
	"cut short": func(path string) error {
		info, err := os.Stat(path)
		return errors.Join(err, os.Truncate(path, info.Size()-1))
	},
	"addressed to somebody else": flipRecipient,
	"one bit at its end":         flipLast,
	"removed":                    os.Remove,
	"a link": func(path string) error {
		return errors.Join(os.Rename(path, path+".away"), os.Symlink(path+".away", path))
	},
	"a folder": func(path string) error {
		return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "x"), 0o700))
	},
	"a pipe": func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
	"huge":   func(path string) error { return os.Truncate(path, 1<<40) },
}

// flipRecipient flips one bit of the first address of the operator, the peer or the
// agent, so that it is in another domain or of another name.
func flipRecipient(path string) error {
	data, err := os.ReadFile(path)
	for _, name := range []string{"example.com>", "example.org", peer} {
		if i := bytes.Index(data, []byte(name)); err == nil && i >= 0 {
			data[i] ^= 1 << 1
			return os.WriteFile(path, data, 0o600)
		}
	}
	return flipLast(path)
}

func flipLast(path string) error {
	data, err := os.ReadFile(path)
	if err == nil {
		data[len(data)-1] ^= 1
		err = os.WriteFile(path, data, 0o600)
	}
	return err
}

// smtpRefuses makes the server refuse every mail for now.
func (h *fixture) smtpRefuses() (again func()) {
	h.refuses(451, "come back later")
	return func() { h.onRcpt.Store(nil) }
}

// row returns the only row of the outbox of that kind.
func (h *fixture) row(kind state.EffectKind) state.Effect {
	h.t.Helper()
	var found []state.Effect
	for _, e := range h.state().Outbox {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		h.t.Fatalf("the outbox has %d of kind %s: %+v", len(found), kind, h.state().Outbox)
	}
	return found[0]
}

// reasonsOf returns the reasons of the lines of this kind that say what.
func (h *fixture) reasonsOf(kind state.LineKind, what string) []string {
	h.t.Helper()
	var reasons []string
	for _, l := range h.lines(kind) {
		if string(l.What) == what {
			reasons = append(reasons, l.Reason)
		}
	}
	return reasons
}

// A damaged mail of which no copy can have left is rendered again, and is sent once to its
// recipient.
func TestDamagedMailIsRenderedAgain(t *testing.T) {
	t.Parallel()
	prepares := map[state.EffectKind]func(h *fixture){
		state.Reply:  func(h *fixture) { h.receive(letter{id: "<one@example.com>"}) },
		state.Ack:    func(h *fixture) { check(h.t, h.agent.Ring("test", "")) },
		state.Answer: func(h *fixture) { h.receive(letter{id: "<one@example.com>", body: "STATUS"}) },
	}
	for first, kind := range slices.Sorted(maps.Keys(prepares)) {
		for name, damage := range some(damages, first) {
			t.Run(string(kind)+", "+name, func(t *testing.T) {
				h := newAwakeFixture(t)
				again := h.smtpRefuses()
				h.agent.Policy.Ack = kind == state.Ack
				prepares[kind](h)
				h.poll()
				row := h.row(kind)
				check(t, damage(h.agent.Store.Path(row.File)))
				again()
				h.pollAfter(2 * time.Minute)
				got := h.sentOf(string(kind))
				if len(got) != 1 || got[0].to != operator || !strings.Contains(got[0].raw, "To: <"+operator+">") || len(got[0].text) < 20 {
					t.Fatalf("sent: %+v", got)
				}
				if lines := h.reasonsOf(state.LineEffect, "rendered again"); len(lines) != 1 || !strings.Contains(lines[0], row.File) {
					t.Errorf("lines: %q", lines)
				}
				if s := h.state(); len(s.Outbox) != 0 || len(s.Undelivered) != 0 {
					t.Errorf("outbox %+v, undeliverable %d", s.Outbox, len(s.Undelivered))
				}
			})
		}
	}
}

// A reply that is rendered again keeps its files.
func TestDamagedReplyKeepsItsFiles(t *testing.T) {
	h := newAwakeFixture(t)
	again := h.smtpRefuses()
	h.script("#!/bin/sh\necho pretty >\"$AGENTSTATELOOP_OUTPUT/chart.txt\"\necho see the chart\n")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	check(t, os.Remove(h.agent.Store.Path(h.row(state.Reply).File)))
	again()
	h.pollAfter(2 * time.Minute)
	got := h.sentOf("reply")
	if len(got) != 1 || got[0].text != "see the chart" || !strings.Contains(got[0].raw, "chart.txt") || got[0].head.InReplyTo != "<one@example.com>" {
		t.Errorf("sent: %+v", got)
	}
}

// If the sources of a damaged reply are damaged too, it is not sent, and the operator is told.
func TestUnrenderableReplyIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, also := range map[string]func(box string) error{
		"the deliverable is altered": func(box string) error { return flipLast(filepath.Join(box, "deliverable.txt")) },
		"the deliverable is gone":    func(box string) error { return os.Remove(filepath.Join(box, "deliverable.txt")) },
		"a file is altered":          func(box string) error { return flipLast(filepath.Join(box, "chart.txt")) },
		"a file is new":              func(box string) error { return os.WriteFile(filepath.Join(box, "x.txt"), []byte("x"), 0o600) },
		"the box is gone":            os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			again := h.smtpRefuses()
			h.script("#!/bin/sh\necho pretty >\"$AGENTSTATELOOP_OUTPUT/chart.txt\"\necho see the chart\n")
			h.receive(letter{id: "<one@example.com>"})
			h.poll()
			row := h.row(state.Reply)
			check(t, flipRecipient(h.agent.Store.Path(row.File)))
			check(t, also(h.agent.Store.Path(h.lines(state.LineTask)[0].OutputBox)))
			again()
			for range 3 {
				h.pollAfter(time.Hour)
			}
			if got := h.sentOf("reply"); len(got) != 0 {
				t.Errorf("sent: %+v", got)
			}
			if lines := h.reasonsOf(state.LineDelivery, "undeliverable"); len(lines) != 1 || !strings.Contains(lines[0], row.File) {
				t.Errorf("lines: %q", lines)
			}
			if s := h.state(); len(s.Undelivered) != 1 || len(s.Outbox) != 0 {
				t.Errorf("undeliverable %d, outbox %+v", len(s.Undelivered), s.Outbox)
			}
		})
	}
}

// A mail of which a copy may have left is not rendered again: only the same bytes may follow.
func TestDamagedMailOfUnknownFateIsNotSent(t *testing.T) {
	t.Parallel()
	for name, damage := range some(damages, 0) {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			accepted := h.hangUpAfterDot("reply")
			h.receive(letter{id: "<one@example.com>"})
			h.poll()
			check(t, damage(h.agent.Store.Path(h.row(state.Reply).File)))
			h.onData.Store(nil)
			h.clock.advance(time.Hour)
			h.pollAfter(time.Hour)
			if n := len(accepted()); n != 1 || len(h.sentOf("reply")) != 0 {
				t.Errorf("%d copies before, %d after", n, len(h.sentOf("reply")))
			}
			if s := h.state(); len(s.Undelivered) != 1 {
				t.Errorf("undeliverable: %d", len(s.Undelivered))
			}
		})
	}
}

// A damaged message to the mesh is rendered again with the same bytes.
func TestDamagedMeshMessageIsRenderedAgain(t *testing.T) {
	t.Parallel()
	prepares := map[state.EffectKind]func(h *fixture){
		state.Reply: func(h *fixture) {
			h.playScript("us submit done i=412\n")
			h.post(meshMessage("q1"))
		},
		state.Question: func(h *fixture) {
			h.playScript("us ask " + peer + " 'which commit?' 10m '[\"commit\"]'\n")
			h.receive(letter{id: "<one@example.com>"})
		},
		state.Post: func(h *fixture) {
			h.playScript("us send " + peer + " 'it is done'\n")
			h.receive(letter{id: "<one@example.com>"})
		},
	}
	for first, kind := range slices.Sorted(maps.Keys(prepares)) {
		for name, damage := range some(damages, first) {
			t.Run(string(kind)+", "+name, func(t *testing.T) {
				h := newAwakeFixture(t)
				prepares[kind](h)
				h.meshAnswers(http.MethodPost, http.StatusServiceUnavailable)
				h.poll()
				row := h.row(kind)
				check(t, damage(h.agent.Store.Path(row.File)))
				h.onMesh.Store(nil)
				h.pollAfter(2 * time.Minute)
				got := h.reports()
				if len(got) != 1 || got[0].ID != row.ID || got[0].Text == "" || got[0].Kind == "" {
					t.Fatalf("the peer got %+v", got)
				}
				if kind == state.Reply && (fieldsOf(got[0]) != `{"i":"412"}` || got[0].Status != state.Success || got[0].TurnID == "") || kind == state.Question && len(got[0].ResultFields) != 1 || got[0].Trace != row.Trace || row.Trace == "" {
					t.Errorf("the peer got %+v", got[0])
				}
				if s, ok := h.state().Effect(row.ID); ok {
					t.Errorf("left: %+v", s)
				}
			})
		}
	}
}

// The challenge alone has its token. A damaged one is replaced by another challenge.
func TestDamagedChallengeIsReplaced(t *testing.T) {
	h := newAskingFixture(t)
	again := h.smtpRefuses()
	h.receive(letter{id: "<one@example.com>", body: "do it"})
	h.poll()
	check(t, flipRecipient(h.agent.Store.Path(h.row(state.Challenge).File)))
	again()
	h.pollAfter(2 * time.Minute)
	h.pollAfter(time.Minute)
	h.wantUntouched()
	asked, token := h.lastChallenge()
	if n := len(h.sentOf("challenge")); n != 1 || len(h.state().Challenges) != 1 {
		t.Fatalf("%d challenges, open: %+v", n, h.state().Challenges)
	}
	h.receive(replyTo(asked, "YES "+token))
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success)
}

// The sums survive the loss of state.json, also that of a file which was made again.
func TestSumsAreRebuiltFromHistory(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false // it would be first
	again := h.smtpRefuses()
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	check(t, os.Remove(h.agent.Store.Path(h.row(state.Reply).File)))
	h.pollAfter(2 * time.Minute)
	before := h.row(state.Reply)
	if n := len(h.reasonsOf(state.LineEffect, "rendered again")); n != 1 {
		t.Fatalf("made again %d times", n)
	}
	check(t, os.Remove(h.agent.Store.Path("state.json")))
	check(t, os.Remove(h.agent.Store.Path("state.json.prev")))
	h.poll()
	after := h.row(state.Reply)
	if after.Sum == "" || after.Sum != before.Sum || after.Origin != before.Origin || after.Epoch != before.Epoch {
		t.Errorf("before %+v, after %+v", before, after)
	}
	again()
	h.pollAfter(time.Hour)
	h.onlyReply()
}

// A row of an older version has no checksum. Its file is sent unless it names another recipient.
func TestMailWithoutSum(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(path string) error
		sent   int
	}{
		"as it is":                   {func(string) error { return nil }, 1},
		"another text":               {flipLast, 1},
		"addressed to somebody else": {flipRecipient, 0},
		"zeroed":                     {damages["zeroed"], 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			again := h.smtpRefuses()
			h.receive(letter{id: "<one@example.com>"})
			h.poll()
			h.changeState(func(s *state.State) {
				for i := range s.Outbox {
					s.Outbox[i].Sum, s.Outbox[i].Origin, s.Outbox[i].Epoch = "", "", 0
				}
			})
			check(t, c.damage(h.agent.Store.Path(h.row(state.Reply).File)))
			again()
			h.pollAfter(2 * time.Minute)
			if got := h.sentOf("reply"); len(got) != c.sent {
				t.Errorf("sent: %+v", got)
			}
			if want := 1 - c.sent; len(h.state().Undelivered) != want {
				t.Errorf("undeliverable: %d, want %d", len(h.state().Undelivered), want)
			}
		})
	}
}

// A process that dies at any moment while it mends sends one version, once.
func TestRepairSurvivesCrashAtAnyStep(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a hundred processes")
	}
	t.Parallel()                            // it mostly waits for the disk
	for n := 1; ; n += max(3, stepSize()) { // the simulator dies at the others as well
		h := newFixture(t)
		h.blueprint.ScheduleMode, h.agent.Schedule.Mode = cycle.ModeNone, cycle.ModeNone
		h.poll()
		again := h.smtpRefuses()
		h.receive(letter{id: "<one@example.com>"})
		h.poll()
		check(t, flipRecipient(h.agent.Store.Path(h.row(state.Reply).File)))
		h.receive(letter{id: "<two@example.com>", body: "and this?"})
		h.collect()
		check(t, flipLast(h.agent.Store.Path(h.state().Inbox[0].Payload)))
		again()
		h.clock.advance(2 * time.Minute)
		code := exitCode(h.poller(h.blueprintFile(), "die-at", strconv.Itoa(n)).Run())
		for range 4 {
			h.pollAfter(2 * time.Minute)
		}
		what := "died at step " + strconv.Itoa(n)
		h.wantTasks(state.Success, state.Success)
		contents := map[string]string{}
		for _, m := range h.sentOf("reply") {
			if old, repeated := contents[m.head.MessageID]; repeated && old != m.raw || m.to != operator {
				t.Errorf("%s: sent to %s, or in two versions:\n%s\n%s", what, m.to, old, m.raw)
			}
			contents[m.head.MessageID] = m.raw
		}
		if s := h.state(); len(contents) != 2 || len(s.Inbox)+len(s.Outbox)+len(s.Undelivered) != 0 {
			t.Errorf("%s: %d replies, left %+v, %+v, undeliverable %d", what, len(contents), s.Inbox, s.Outbox, len(s.Undelivered))
		}
		if code == exitDone {
			if n < 20 {
				t.Fatalf("a poll has %d such moments only", n)
			}
			return
		}
	}
}

// A sender that was killed at the dot leaves a mail of unknown fate.
func TestDamagedMailOfKilledSender(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	cmd := h.poller(h.blueprintFile(), "poll")
	started := make(chan struct{})
	h.killAtDot("reply", func() { <-started; check(t, cmd.Process.Kill()) }, net.ErrClosed)
	h.receive(letter{id: "<one@example.com>"})
	check(t, cmd.Start())
	close(started)
	cmd.Wait() // its error is that it was killed
	h.onData.Store(nil)
	check(t, flipRecipient(h.agent.Store.Path(h.row(state.Reply).File)))
	for range 2 {
		h.pollAfter(time.Hour)
	}
	if got := h.sentOf("reply"); len(got) != 0 {
		t.Errorf("sent: %+v", got)
	}
	if s := h.state(); len(s.Undelivered) != 1 {
		t.Errorf("undeliverable: %d", len(s.Undelivered))
	}
}
