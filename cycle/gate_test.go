package cycle_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// A mail that fails the gate is kept with the gate's verdict, and causes no turn, no answer and
// no change of phase (docs/design.md, "The gate").
func TestMailThatFailsTheGateIsQuarantined(t *testing.T) {
	t.Parallel()
	const ours = "<ours>" // an id that the agent made
	for name, c := range map[string]struct {
		letter letter
		gate   string
	}{
		"two From fields":  {letter{fields: "From: stranger@example.net\r\n"}, trust.GateFrom},
		"two in one From":  {letter{from: "x@example.net>, <" + operator}, trust.GateFrom},
		"an auto-reply":    {letter{fields: "Auto-Submitted: auto-replied\r\n"}, trust.GateAuto},
		"a bounce":         {letter{fields: "Return-Path: <>\r\n"}, trust.GateBounce},
		"list mail":        {letter{fields: "List-Id: <all.example.com>\r\n"}, trust.GateList},
		"bulk mail":        {letter{fields: "Precedence: bulk\r\n"}, trust.GateList},
		"a mail of ours":   {letter{id: ours}, trust.GateSelf},
		"a reaction":       {letter{fields: "Content-Type: multipart/alternative; boundary=b\r\n", body: "--b\r\n\r\nAnn reacted\r\n--b\r\nContent-Type: text/vnd.google.email-reaction+json\r\n\r\n{}\r\n--b--\r\n"}, trust.GateAuto},
		"an absence note":  {letter{subject: "Automatic reply: @goulard3120", fields: "In-Reply-To: <x@example.com>\r\n"}, trust.GateAuto},
		"marked as ours":   {letter{fields: "X-AgentStateLoop: " + handle + "\r\n"}, trust.GateSelf},
		"an unsubject one": {letter{subject: "no callsign", fields: "In-Reply-To: " + ours + "\r\nAuto-Submitted: auto-replied\r\n"}, trust.GateAuto},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			made := h.ids().Make("reply.t1", "")
			c.letter.id = strings.Replace(c.letter.id, ours, made, 1)
			c.letter.fields = strings.Replace(c.letter.fields, ours, made, 1)
			h.receive(c.letter)
			if r := h.poll(); r.Rejected != 1 || r.Arrived != 0 || r.Turns != 0 {
				t.Fatalf("report: %+v", r)
			}
			h.wantQuarantined("message.eml", c.gate)
			h.wantPhase(state.IDLE)
			h.poll()
			h.wantSent("")
			if lines := h.lines(state.LineGate); len(lines) != 1 || lines[0].Gate != c.gate {
				t.Errorf("history: %+v", lines)
			}
			if n := h.state().Quarantined; n != 1 {
				t.Errorf("quarantined: %d", n)
			}
		})
	}
}

// wantQuarantined fails unless quarantine/ holds one item, payload and verdict.
func (h *fixture) wantQuarantined(payload, gate string) {
	h.t.Helper()
	items, err := os.ReadDir(h.agent.Store.Path(store.QuarantineDir))
	check(h.t, err)
	if len(items) != 1 {
		h.t.Fatalf("quarantine holds %v, want one item", items)
	}
	dir := filepath.Join(h.agent.Store.Path(store.QuarantineDir), items[0].Name())
	if raw, err := os.ReadFile(filepath.Join(dir, payload)); err != nil || len(raw) == 0 {
		h.t.Errorf("the payload: %d bytes, %v", len(raw), err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	check(h.t, err)
	var verdict quarantine.Verdict
	check(h.t, json.Unmarshal(data, &verdict))
	if verdict.Gate != gate || verdict.Reason == "" || verdict.Key == "" {
		h.t.Errorf("verdict %+v, want gate %q and a reason", verdict, gate)
	}
}

// A mail of the operator to the agent's address that calls nobody has no effect and is counted.
// Mail for others and automatic mail is not counted.
func TestMailThatCallsNobodyIsCounted(t *testing.T) {
	h := newAwakeFixture(t)
	for _, l := range []letter{
		{subject: "status?"}, {subject: "goulard3120, status?"}, // no callsign
		{subject: "@dorlange3120 status?"}, {from: "stranger@example.net", subject: "status?"},
		{subject: "status?", fields: "Auto-Submitted: auto-replied\r\n"},
	} {
		h.receive(l)
	}
	h.receiveRaw([]byte("From: " + operator + "\r\nTo: friend@example.net\r\nSubject: lunch\r\n\r\nhi\r\n"))
	if r := h.poll(); r.Arrived != 0 || r.Rejected != 0 || r.Turns != 0 {
		t.Errorf("report: %+v", r)
	}
	h.poll()
	h.wantSent("")
	st := h.status()
	if u := st.Inbox.Uncalled; u == nil || u.Count != 2 {
		t.Errorf("uncalled: %+v", u)
	}
}
