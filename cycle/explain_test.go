package cycle_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// explainFresh explains the only new mail of a fixture before a poll. What it returns fails after
// the poll unless the poll did what the explanation says. It checks nothing if there are several new
// mails, because each changes the state that the next one meets.
func (h *fixture) explainFresh() (agree func()) {
	h.t.Helper()
	fresh := h.fresh
	h.fresh = nil
	before, err := h.agent.Store.Read()
	if err != nil || len(fresh) != 1 || h.agent.Mail == nil || h.agent.Mail.Mailbox.Addr != h.mail.IMAP || before.Cursor.Restored != nil || before.Cursor.Next == 0 {
		return func() {}
	}
	m := fresh[0]
	m.Key = before.Cursor.Key(m.UID)
	x, err := h.agent.Explainer(false)
	check(h.t, err)
	e, err := x.Explain(h.t.Context(), m)
	check(h.t, err)
	return func() {
		h.t.Helper()
		want, decided := h.decided(before, m.Key)
		got := decision{outcome: e.Outcome, gate: e.Gate, control: e.Control, thread: e.Thread}
		if e.Outcome != cycle.AsMessage {
			got.thread = "" // the history does not have it
		}
		if decided && got != want {
			h.t.Errorf("explained as %+v, and the poll decided %+v: %q", got, want, m.Raw)
		}
	}
}

// decision is the decision of a poll about a mail.
type decision struct {
	outcome               cycle.Outcome
	gate, control, thread string
}

// decided reads the decision about the mail under key from the history after a state. ok is false
// if the history does not mention the mail.
func (h *fixture) decided(after state.State, key string) (d decision, ok bool) {
	h.t.Helper()
	released := false
	for l, err := range h.agent.Store.History() {
		check(h.t, err)
		if l.Serial <= after.Serial {
			continue
		}
		released = released || l.Kind == state.LineQuarantine && l.What == state.WordReleased
		if l.Key != key || ok && l.Kind != state.LineChallenge {
			continue
		}
		switch {
		case l.Kind == state.LineMessage && l.What == "":
			d, ok = decision{outcome: cycle.AsMessage, thread: l.Message.ThreadID}, true
		case l.Kind == state.LineGate && l.What == state.WordCopy, l.Kind == state.LineDuplicate:
			d, ok = decision{outcome: cycle.AsDuplicate}, true
		case l.Kind == state.LineGate && l.What == state.WordNotKept:
			d, ok = decision{outcome: cycle.AsCounted, gate: l.Gate}, true
		case l.Kind == state.LineGate:
			d, ok = decision{outcome: cycle.AsQuarantine, gate: l.Gate}, true
		case l.Kind == state.LineControl:
			d, ok = decision{outcome: cycle.AsControl, control: string(l.What)}, true
		case l.Kind == state.LineEdge && l.What == state.WordReport:
			d, ok = decision{outcome: cycle.AsAnswer}, true
		}
	}
	if !ok && released {
		return decision{outcome: cycle.AsConsent}, true
	}
	return d, ok
}

// TestExplainMailOfRealClients explains the mails of real programs, and polls them. The agent must
// get the text and the files of the explanation. For a stranger each mail is ignored.
func TestExplainMailOfRealClients(t *testing.T) {
	found, err := filepath.Glob("../mail/message/testdata/clients/*.eml")
	if err != nil || len(found) < 40 {
		t.Fatalf("%d mails, %v", len(found), err)
	}
	h := newAwakeFixture(t)
	h.script("#!/bin/sh\ncat >/dev/null\ncat \"$AGENTSTATELOOP_CONTEXT/text.txt\" >got\nLC_ALL=C ls -1 \"$AGENTSTATELOOP_CONTEXT/attachments\" >files 2>/dev/null\necho done\n")
	for i, file := range found {
		raw, err := os.ReadFile(file)
		check(t, err)
		raw = bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
		e, err := h.agent.ExplainMail(t.Context(), raw, h.clock.Now())
		check(t, err)
		if e.Outcome != cycle.AsIgnored || e.Field != "From" && e.Field != "Subject" {
			t.Errorf("%s: %+v", file, e)
		}
		raw = adopted(string(raw), i)
		if e, err = h.agent.ExplainMail(t.Context(), raw, h.clock.Now()); err != nil || e.Outcome != cycle.AsMessage {
			t.Errorf("%s: %+v, %v", file, e, err)
			continue
		}
		h.receiveRaw(raw)
		h.pollAfter(time.Minute)
		if text := h.taken("got"); text != e.Text {
			t.Errorf("%s: the agent got %q, and the explanation has %q", file, text, e.Text)
		}
		names := ""
		for _, name := range slices.Sorted(namesOf(e.Files)) {
			names += name + "\n"
		}
		if listed := h.taken("files"); listed != names {
			t.Errorf("%s: the agent got the files %q, and the explanation has %q", file, listed, names)
		}
	}
}

// namesOf yields the names under which the agent gets files.
func namesOf(list []files.ReceivedFile) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range list {
			if !yield(f.SaveAs) {
				return
			}
		}
	}
}

// taken returns a file that the agent's program has written, and removes it.
func (h *fixture) taken(name string) string {
	h.t.Helper()
	name = filepath.Join(h.blueprint.Dir, name)
	data, err := os.ReadFile(name)
	check(h.t, err)
	check(h.t, os.Remove(name))
	return string(data)
}

// adopted returns mail n of a stranger as a mail of the operator to the agent.
func adopted(raw string, n int) []byte {
	header, body, _ := strings.Cut(raw, "\r\n\r\n")
	kept := fmt.Sprintf("From: %s\r\nSubject: @%s take this\r\nMessage-ID: <adopted.%d@example.com>\r\n", operator, handle, n)
	for l := range strings.SplitAfterSeq(header+"\r\n", "\r\n") {
		name, _, _ := strings.Cut(strings.ToLower(l), ":")
		if !strings.HasPrefix(l, "From ") && name != "from" && name != "subject" && name != "message-id" {
			kept += l
		}
	}
	return []byte(kept + "\r\n" + body)
}

// TestExplainChangesNothing explains mails of each outcome, twice, and compares the state
// directory and the mailbox.
func TestExplainChangesNothing(t *testing.T) {
	h := newRequiringFixture(t, trust.RequireChallenge)
	h.receive(letter{id: "<1@example.com>", body: "rm -rf"})
	h.pollAfter(time.Minute)
	before := tree(t, h.agent.Store.Dir)
	h.receive(letter{id: "<2@example.com>"})
	for _, l := range []letter{{}, {from: "eve@example.net"}, {subject: "lunch"}, {id: "<1@example.com>", body: "rm -rf"}, {fields: "List-Id: <x.example.com>\r\n"}, {body: "STOP"}} {
		for range 2 {
			if _, err := h.agent.ExplainMail(t.Context(), l.raw(), h.clock.Now()); err != nil {
				t.Error(err)
			}
		}
	}
	if after := tree(t, h.agent.Store.Dir); after != before {
		t.Errorf("the state directory was\n%s\nand is\n%s", before, after)
	}
	if got := h.unread(); len(got) != 2 {
		t.Errorf("unread: %v", got)
	}
}

// tree lists the files of a folder with their sizes and times.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	check(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			b.WriteString(path + " " + info.ModTime().String() + " " + info.Mode().String() + "\n")
		} else if err == nil {
			b.WriteString(path + "\n")
		}
		return err
	}))
	return b.String()
}

// TestExplainedState explains one mail in several states of the agent.
func TestExplainedState(t *testing.T) {
	h := newAwakeFixture(t)
	explain := func(l letter) cycle.Explanation {
		t.Helper()
		e, err := h.agent.ExplainMail(t.Context(), l.raw(), h.clock.Now())
		check(t, err)
		return e
	}
	mail := letter{id: "<1@example.com>"}
	if e := explain(mail); e.Outcome != cycle.AsMessage || e.Waits != "" || e.Ahead != 0 || e.ReadAt == nil || !e.ReadAt.Equal(morning) {
		t.Errorf("idle: %+v", e)
	}
	h.halt()
	if e := explain(mail); e.Waits != "the agent is halted" {
		t.Errorf("halted: %+v", e)
	}
	h.queue("first things first")
	if e := explain(mail); e.Ahead != 1 {
		t.Errorf("one waits: %+v", e)
	}
	h.resume()
	h.receive(mail)
	h.pollAfter(time.Minute)
	if e := explain(mail); e.Outcome != cycle.AsDuplicate || e.Copy != "2" {
		t.Errorf("taken: %+v", e)
	}
	answer := replyTo(h.sentOf("reply")[0], "thanks")
	answer.subject = "hello again"
	if e := explain(answer); e.Outcome != cycle.AsMessage || e.Field != "In-Reply-To" || e.Answers != "reply" {
		t.Errorf("an answer: %+v", e)
	}
	report := bounceOf(h.sentOf("reply")[0])
	if e, err := h.agent.ExplainMail(t.Context(), report, h.clock.Now()); err != nil || e.Outcome != cycle.AsReport || !strings.Contains(e.Reason, "550 no such user") {
		t.Errorf("a report: %+v, %v", e, err)
	}
	forged := bytes.Replace(report, []byte("Message-ID: <reply."), []byte("Message-ID: <reply.x"), 1)
	if e, err := h.agent.ExplainMail(t.Context(), forged, h.clock.Now()); err != nil || e.Outcome != cycle.AsIgnored || !e.Forged {
		t.Errorf("a forged report: %+v, %v", e, err)
	}
	h.agent.Policy.ByThread = true
	for _, fields := range []string{"", "List-Id: <x.example.com>\r\n"} {
		if e := explain(letter{id: "<2@example.com>", fields: fields}); e.Thread != message.NewThread("<2@example.com>") || !e.NewThread {
			t.Errorf("a new conversation: %+v", e)
		}
		if e := explain(letter{id: "<3@example.com>", fields: fields + "In-Reply-To: <2@example.com>\r\n"}); e.Thread != message.NewThread("<2@example.com>") || e.NewThread {
			t.Errorf("a known conversation: %+v", e)
		}
		if e := explain(letter{fields: fields}); e.Thread != "" || !e.NewThread {
			t.Errorf("a new conversation without an id: %+v", e)
		}
	}
	s, err := h.agent.Store.Read()
	check(t, err)
	s.Cursor.Restored = &state.RestoredMail{}
	x, err := h.agent.ExplainerAt(s, h.clock.Now, true)
	check(t, err)
	if e, err := x.Explain(t.Context(), cycle.FoundMail{Raw: mail.raw(), At: h.clock.Now()}); err != nil || !e.Restored {
		t.Errorf("while a restore is compared: %+v, %v", e, err)
	}
	check(t, h.agent.MarkMoved(t.Context(), "elsewhere", ""))
	if _, err := h.agent.Explainer(false); err == nil || !strings.Contains(err.Error(), "was moved to elsewhere") {
		t.Errorf("moved: %v", err)
	}
	h.agent.Mail = nil
	if _, err := h.agent.Explainer(false); !errors.Is(err, cycle.ErrNoMail) {
		t.Errorf("without mail: %v", err)
	}
}

// TestExplainerReadsQuarantineOnce removes the quarantine between two rejected mails.
func TestExplainerReadsQuarantineOnce(t *testing.T) {
	h := newAwakeFixture(t)
	list := letter{id: "<1@example.com>", fields: "List-Id: <x.example.com>\r\n"}
	h.receive(list)
	h.pollAfter(time.Minute)
	x, err := h.agent.Explainer(true)
	check(t, err)
	for _, id := range []string{"<2@example.com>", "<3@example.com>"} {
		list.id = id
		if e, err := x.Explain(t.Context(), cycle.FoundMail{Raw: list.raw(), At: h.clock.Now()}); err != nil || e.Outcome != cycle.AsQuarantine {
			t.Errorf("%s: %+v, %v", id, e, err)
		}
		folder := h.agent.Store.Path(store.QuarantineDir)
		check(t, errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)))
	}
}

// TestEvidenceOfStoredMail describes the signature of mails whose bodies no gate accepts.
func TestEvidenceOfStoredMail(t *testing.T) {
	h := newRequiringFixture(t, trust.RequireDMARC)
	for _, body := range []string{"hello", "a\x00b", strings.Repeat("a long mail\r\n", 30_000)} {
		raw := letter{fields: "DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=s1; h=from:subject; bh=aGFzaA==; b=eA==\r\n", body: body}.raw()
		if e, err := h.agent.EvidenceOf(raw); err != nil || len(e.Evidence.Signatures) != 1 {
			t.Errorf("%d bytes: %+v, %v", len(raw), e.Evidence, err)
		}
	}
}
