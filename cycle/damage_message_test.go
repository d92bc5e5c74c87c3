package cycle_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// A mail whose file is damaged is fetched again from the mailbox, in the poll that
// was to run it, and runs as it came.
func TestDamagedMessageIsFetchedAgain(t *testing.T) {
	t.Parallel()
	for name, damage := range some(damages, 1) {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.receive(letter{id: "<one@example.com>", body: "first"})
			h.receive(letter{id: "<two@example.com>", body: "second"})
			h.collect()
			check(t, damage(h.agent.Store.Path(h.state().Inbox[0].Payload)))
			h.pollAfter(time.Minute)
			h.wantTasks(state.Success, state.Success)
			h.wantRuns(2)
			h.wantReplies("I read: second", "I read: first")
			if lines := h.reasonsOf(state.LineDamage, "mended"); len(lines) != 1 {
				t.Errorf("mended: %q", lines)
			}
		})
	}
}

// A damaged mail that has left the mailbox never runs. It is given up after three polls and
// reported once.
func TestDamagedMessageIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(h *fixture, uid uint32){
		"expunged":   func(h *fixture, uid uint32) { h.expunge(uid) },
		"renumbered": func(h *fixture, _ uint32) { check(h.t, h.mail.Renumber()) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			uid := h.receive(letter{id: "<one@example.com>", body: "first"})
			h.collect()
			row := h.state().Inbox[0]
			check(t, flipLast(h.agent.Store.Path(row.Payload)))
			lose(h, uid)
			h.pollAfter(time.Minute)
			held := h.state().Inbox
			if len(held) != 1 || held[0].Status != state.Deferred || !strings.Contains(held[0].Reason, row.Payload) {
				t.Fatalf("held: %+v", held)
			}
			for range 5 {
				h.pollAfter(time.Minute)
			}
			h.wantLost(row, "notice")
		})
	}
}

// wantLost fails unless this message was given up without a turn, and the operator
// was told once by a mail of that kind.
func (h *fixture) wantLost(row state.Message, kind string) {
	h.t.Helper()
	h.wantRuns(0)
	if s := h.state(); len(s.Inbox)+len(s.Outbox) != 0 {
		h.t.Errorf("left: %+v, %+v", s.Inbox, s.Outbox)
	}
	if lines := h.reasonsOf(state.LineEnded, "error"); len(lines) != 1 || !strings.Contains(lines[0], row.Payload) {
		h.t.Errorf("ended: %q", lines)
	}
	told := h.sentOf(kind)
	if len(told) != 1 || !strings.Contains(told[0].text, row.Key) || !strings.Contains(told[0].text, row.From) {
		h.t.Errorf("told: %+v", told)
	}
}

// expunge removes a mail from the mailbox for good.
func (h *fixture) expunge(uid uint32) {
	h.t.Helper()
	c := h.inbox(false)
	defer c.Close()
	deleted := &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagDeleted}}
	check(h.t, c.Store(imap.UIDSetNum(imap.UID(uid)), deleted, nil).Close())
	check(h.t, c.Expunge().Close())
}

// A mail that the server sends under the UID of a damaged mail is taken only if it is the same
// mail.
func TestDamagedMessageIsNotReplacedByOther(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "first"})
	h.collect()
	row := h.state().Inbox[0]
	path := h.agent.Store.Path(row.Payload)
	whole, err := os.ReadFile(path)
	check(t, err)
	// The mailbox has another mail than the row says.
	h.changeState(func(s *state.State) { s.Inbox[0].Sum = store.Sum(append(whole, ' ')) })
	for range 5 {
		h.pollAfter(time.Minute)
	}
	h.wantLost(row, "notice")
}

// A server that is away for a while is not believed to have lost the mail.
func TestDamagedMessageWaitsForServer(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "first"})
	h.collect()
	check(t, flipLast(h.agent.Store.Path(h.state().Inbox[0].Payload)))
	broken := func(imap.NumSet, bool) error { return errors.New("not now") }
	h.onFetch.Store(&broken)
	h.pollAfter(time.Minute)
	h.onFetch.Store(nil)
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success)
	h.wantReplies("I read: first")
}

// A damaged message of the mesh or the terminal cannot be fetched again. It is given up and
// reported, and an agent that sent it gets a report.
func TestDamagedMeshAndCLIMessages(t *testing.T) {
	t.Parallel()
	for name, damage := range some(damages, 2) {
		t.Run("mesh, "+name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.post(meshMessage("q1"))
			h.collect()
			row := h.state().Inbox[0]
			check(t, damage(h.agent.Store.Path(row.Payload)))
			for range 3 {
				h.pollAfter(time.Minute)
			}
			h.wantLost(row, "notice")
			if got := h.reports(); len(got) != 1 || got[0].Kind != mesh.KindReport || got[0].Correlation != "q1" || !strings.Contains(got[0].Text, "failed") {
				t.Errorf("reports: %+v", got)
			}
		})
		t.Run("cli, "+name, func(t *testing.T) {
			h := newAwakeFixture(t)
			key, err := h.agent.Tell(t.Context(), "you", "how are you?")
			check(t, err)
			row := h.state().Inbox[0]
			check(t, damage(h.agent.Store.Path(row.Payload)))
			for range 3 {
				h.pollAfter(time.Minute)
			}
			h.wantLost(row, "notice")
			if _, err := h.agent.Await(t.Context(), key); err == nil || !strings.Contains(err.Error(), "error") {
				t.Errorf("tell: %v", err)
			}
		})
	}
}

// A suspended turn whose message is damaged goes on with it once it is fetched again. If the
// message is lost, the turn fails.
func TestDamagedMessageOfSuspendedTurn(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"fetched again": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.playScript(askingScript)
			uid := h.receive(letter{id: "<one@example.com>", body: "deploy it"})
			h.poll()
			check(t, flipLast(h.agent.Store.Path(h.state().Inbox[0].Payload)))
			if lost {
				h.expunge(uid)
			}
			h.post(mesh.Message{ID: "r1", Kind: mesh.KindReport, Correlation: h.workFile("ids"), Text: "4c1f is live"})
			for range 5 {
				h.pollAfter(time.Minute)
			}
			if !lost {
				h.wantTasks(state.Success)
				wantWords(t, h.prompt(), "deploy it")
				return
			}
			h.wantTasks(state.Failed)
			wantWords(t, h.onlyReply().text, "damaged")
			h.wantRuns(1)
		})
	}
}

// A report that is damaged is not shown to the turn that waited for it.
func TestDamagedReportIsNotShown(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript(askingScript)
	h.receive(letter{id: "<one@example.com>", body: "deploy it"})
	h.poll()
	h.post(mesh.Message{ID: "r1", Kind: mesh.KindReport, Correlation: h.workFile("ids"), Text: "4c1f is live"})
	h.collect()
	file := h.agent.Store.Path(h.state().Turn.Waiting[0].Report)
	data, err := os.ReadFile(file)
	check(t, err)
	check(t, os.WriteFile(file, []byte(strings.Replace(string(data), "4c1f", "4c1e", 1)), 0o600))
	h.pollAfter(time.Minute)
	if got := h.sentOf("reply"); len(got) != 1 || strings.Contains(got[0].text, "4c1e") || !strings.Contains(got[0].text, "damaged") {
		t.Errorf("replies: %+v", got)
	}
}

// A damaged submission is not delivered.
func TestDamagedSubmissionIsPartial(t *testing.T) {
	t.Parallel()
	for name, damage := range some(damages, 3) {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			submitted, _ := h.pipe("submitted")
			_, goOn := h.pipe("go")
			h.playScript("us submit 'the answer is 42'\necho >submitted\nread x <go\n")
			h.receive(letter{id: "<one@example.com>"})
			wait := h.pollInBackground()
			submitted()
			check(t, damage(filepath.Join(h.attempt(), h.state().Turn.Submitted)))
			goOn()
			wait()
			h.wantTasks(state.Partial)
			if got := h.sentOf("reply"); len(got) != 1 || strings.Contains(got[0].text, "the answer is") || !strings.Contains(got[0].text, "cannot be read") {
				t.Errorf("replies: %+v", got)
			}
		})
	}
}

// A damaged item in quarantine is not released.
func TestDamagedQuarantineItemIsNotReleased(t *testing.T) {
	h := newAskingFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "do it"})
	h.poll()
	asked, token := h.lastChallenge()
	item := h.quarantinedItem()
	check(t, flipLast(h.agent.Store.Path(item.Payload)))
	if _, err := h.agent.Release(t.Context(), item.Key, state.ByHand); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("released: %v", err)
	}
	h.receive(replyTo(asked, "YES "+token))
	h.pollAfter(time.Minute)
	h.pollAfter(time.Minute)
	h.wantTasks()
	if _, err := h.agent.View().QuarantinedItem(item.Key); errors.Is(err, quarantine.ErrNotQuarantined) {
		t.Errorf("it has left: %v", err)
	}
}
