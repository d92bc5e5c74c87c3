package cycle_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// failedSources returns the sources that a poll could not use, for which it exits 3.
func failedSources(r cycle.Report) string {
	var all []string
	for _, f := range r.Failed {
		all = append(all, string(f.Source))
	}
	return strings.Join(all, " ")
}

// wantCredentials fails unless these credentials fail, with so many failures
// each.
func (h *fixture) wantCredentials(want string) {
	h.t.Helper()
	var all []string
	for _, name := range []string{"agent:claude", "agent:exec", "imap", "mesh", "smtp"} {
		if c, fails := h.state().Credentials[name]; fails {
			all = append(all, fmt.Sprintf("%s %d", name, c.Failures))
		}
	}
	if got := strings.Join(all, ", "); got != want {
		h.t.Fatalf("failing: %q, want %q", got, want)
	}
}

// wantPeerGot fails unless the peer was sent items of these kinds, each about
// this credential, in this order. It empties the peer's mailbox.
func (h *fixture) wantPeerGot(want ...string) {
	h.t.Helper()
	var got []string
	for _, m := range h.reports() {
		got = append(got, m.Kind+" "+m.Text)
		for _, secret := range []string{h.mail.Password, "AUTHENTICATIONFAILED", "535"} {
			if strings.Contains(m.Text, secret) {
				h.t.Errorf("the peer was told %q: %s", secret, m.Text)
			}
		}
		check(h.t, h.peer.Ack(h.t.Context(), m.ID))
	}
	if len(got) != len(want) {
		h.t.Fatalf("the peer got %q, want %q", got, want)
	}
	for i, w := range want {
		kind, about, _ := strings.Cut(w, " ")
		if !strings.HasPrefix(got[i], kind+" ") || !strings.Contains(strings.ToLower(got[i]), about) {
			h.t.Errorf("the peer got %q, want %q", got[i], w)
		}
	}
}

// With real servers, the mailbox's password stops working for reading and sending, is rotated,
// and stops working again. The keymaster hears about each outage at once, the operator at the
// third poll through a peer, and both at its end, each once.
func TestExpiredPasswordIsReported(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.clock.advance(17 * time.Hour)
	h.mail.SetPassword("rotated by nobody")
	poll := func() { // half an hour later; what fails is exit 3
		t.Helper()
		if r := h.pollAfter(30 * time.Minute); failedSources(r) != "mail" {
			t.Errorf("failed sources: %+v", r.Failed)
		}
	}
	poll()
	h.wantCredentials("imap 1")
	h.wantPeerGot("message the login imap of @goulard3120 has been refused since")
	poll()
	h.wantPeerGot()
	poll()
	h.wantCredentials("imap 3, smtp 1")
	h.wantPeerGot("message the login smtp", "relay the login imap")
	poll()
	poll()
	h.wantCredentials("imap 5, smtp 3")
	h.wantPeerGot("relay the login smtp")
	h.wantSent("")
	for range 5 {
		poll()
	}
	h.wantPeerGot()
	h.wantPhase(state.IDLE)

	h.mail.SetPassword(h.mail.Password)
	if r := h.pollAfter(30 * time.Minute); len(r.Failed) != 0 {
		t.Errorf("after it works: %+v", r.Failed)
	}
	h.wantCredentials("")
	h.wantPeerGot("notice the login imap of @goulard3120 works again", "notice the login smtp")
	h.wantSent("notice notice")
	for _, m := range h.sent() {
		if m.to != operator || !strings.Contains(m.text, "works again") || !strings.HasPrefix(m.head.Subject, "@goulard3120: login ") {
			t.Errorf("the operator got %q: %q", m.head.Subject, m.text)
		}
	}

	h.mail.SetPassword("dead again")
	poll()
	h.wantCredentials("imap 1")
	h.wantPeerGot("message the login imap")
}

// If only sending works, the operator is mailed although reading fails.
func TestReadFailureIsMailed(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mail.Mailbox.Secret = fixedSecret("wrong")
	for range 4 {
		h.pollAfter(30 * time.Minute)
	}
	h.wantCredentials("imap 4")
	h.wantSent("notice")
	if m := h.sent()[0]; m.to != operator || !strings.Contains(m.text, "The login imap of @goulard3120 was refused in 3 polls in a row, since 2026-01-05 09:30 UTC.") {
		t.Errorf("the operator got %+v", m)
	}
}

// A failure is counted once a cycle. A login that was denied is not tried again
// in that cycle, neither in a further round nor for the next mail.
func TestRefusedLoginIsTriedOncePerCycle(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	const other = "second@example.com"
	h.agent.Policy.Ack = false
	h.agent.Mail.Filter.Operators = append(h.agent.Mail.Filter.Operators, other)
	logins := map[string]int{}
	count := func(name, password string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { logins[name]++; return password, nil }
	}
	h.agent.Mail.SMTP.Secret = count("smtp", "wrong")
	h.receive(letter{id: "<one@example.com>"})
	h.receive(letter{id: "<two@example.com>", from: other})
	if r := h.poll(); r.Turns != 2 || failedSources(r) != "mail" {
		t.Errorf("report: %+v", r)
	}
	h.wantCredentials("smtp 1")

	h.agent.Mail.Mailbox.Secret = count("imap", "wrong")
	ring := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/mailbox/"+handle) {
			check(t, h.agent.Ring("test", "another round"))
		}
	})
	h.onMesh.Store(&ring)
	h.pollAfter(time.Minute)
	h.onMesh.Store(nil)
	h.wantCredentials("imap 1, smtp 2")
	if logins["imap"] != 1 || logins["smtp"] != 2 {
		t.Errorf("logins in one poll, and two: %v", logins)
	}
	// Each cycle tries again, whether or not there is anything to send.
	h.agent.Mail.Mailbox.Secret, h.agent.Mail.SMTP.Secret = fixedSecret(h.mail.Password), fixedSecret(h.mail.Password)
	h.pollAfter(time.Minute)
	h.wantCredentials("")
	if n := len(h.sentOf("reply")); n != 2 {
		t.Errorf("%d replies of 2", n)
	}
}

// A network failure does not count as a failure of the credential.
func TestNetworkErrorIsNotACredentialFailure(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mail.Mailbox.Addr, h.agent.Mail.SMTP.Addr, h.agent.Mesh.Carrier.(*mesh.Client).URL = mailtest.StartNobody(t), mailtest.StartNobody(t), "http://"+mailtest.StartNobody(t)
	h.agent.Policy.Ack = false
	for range 4 {
		if r := h.pollAfter(30 * time.Minute); failedSources(r) != "mail mesh" {
			t.Errorf("failed sources: %+v", r.Failed)
		}
	}
	h.wantCredentials("")
}

// A secret that cannot be read is a failure of its credential.
func TestUnreadableSecretIsCredentialFailure(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mail.Mailbox.Secret = func(context.Context) (string, error) { return "", fmt.Errorf("the file is gone") }
	h.poll()
	h.wantCredentials("imap 1")
}

// If the mesh rejects our token, the operator is mailed. The keymaster could not hear about the
// outage, and does not hear about its end.
func TestRefusedMeshTokenIsMailed(t *testing.T) {
	h := newAwakeFixture(t)
	h.meshRefuses()
	for range 4 {
		if r := h.pollAfter(30 * time.Minute); failedSources(r) != "mesh" {
			t.Errorf("failed sources: %+v", r.Failed)
		}
	}
	h.wantCredentials("mesh 4")
	h.wantSent("notice")
	h.onMesh.Store(nil)
	h.pollAfter(30 * time.Minute)
	h.wantCredentials("")
	h.wantSent("notice notice")
	h.wantPeerGot()
}

func (h *fixture) meshRefuses() {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	h.onMesh.Store(&refuse)
}

// If both channels are dead, polls go on and each exits 3. The notice is sent
// by the channel that works first.
func TestMailAndMeshRefuseLogin(t *testing.T) {
	h := newAwakeFixture(t)
	h.mail.SetPassword("changed")
	h.meshRefuses()
	for range 4 {
		if r := h.pollAfter(30 * time.Minute); failedSources(r) != "mail mesh" {
			t.Errorf("failed sources: %+v", r.Failed)
		}
	}
	status := h.status()
	if c := status.Credentials["imap"]; c.Failures != 4 || c.OperatorTold || c.KeymasterTold || status.Outbox.Waiting == 0 {
		t.Errorf("status: %+v, outbox %+v", status.Credentials, status.Outbox)
	}
	h.onMesh.Store(nil)
	h.pollAfter(30 * time.Minute)
	h.wantPeerGot("message the login imap", "message the login smtp", "relay the login imap", "relay the login smtp")
	status = h.status()
	if c := status.Credentials["imap"]; !c.OperatorTold || !c.KeymasterTold {
		t.Errorf("status: %+v", c)
	}
}

// The agent's own login is a third class: at the third cycle the operator is
// mailed, the message keeps waiting, and the poll exits 3.
func TestAgentLoginFailureIsReported(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, "init s1; [ -e login ] || refused; answer hello\n")
	h.receive(letter{id: "<one@example.com>"})
	for i := range 3 {
		if r := h.pollAfter(time.Minute); failedSources(r) != "agent" || r.Turns != 1 {
			t.Errorf("poll %d: %+v", i, r)
		}
	}
	h.wantCredentials("agent:claude 3")
	h.wantPeerGot("message the login agent:claude")
	h.wantSent("notice")
	h.write("login", "")
	h.pollAfter(time.Minute)
	h.wantCredentials("")
	if got := h.kinds(); got != "notice reply notice" {
		t.Errorf("sent %q", got)
	}
}

// A refused login of a program of runner exec, by its exit code or its last words, is reported in
// the same way.
func TestProgramLoginFailureIsReported(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"exit code": "exit 77\n", "401 on stdout": "echo 'HTTP 401'; exit 1\n", "401 on stderr": "echo 'error: 401 Unauthorized' >&2; exit 1\n",
		"an expired token": "echo 'the access token has expired' >&2; exit 2\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newAwakeFixture(t)
			h.playScript(script)
			h.receive(letter{id: "<one@example.com>"})
			for i := range 3 {
				if r := h.pollAfter(time.Minute); failedSources(r) != "agent" || r.Turns != 1 {
					t.Errorf("poll %d: %+v", i, r)
				}
			}
			h.wantCredentials("agent:exec 3")
			h.wantPeerGot("message the login agent:exec")
			h.wantTasks()
			h.playScript("echo hello\n")
			h.pollAfter(time.Minute)
			h.wantCredentials("")
			h.wantTasks(state.Success)
		})
	}
}
