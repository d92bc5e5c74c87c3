package cycle_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/state/store"
)

// The Message-ID of each of our mails has a MAC of its thread.
func TestMessageIDsHaveMAC(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	for i, subject := range []string{"@goulard3120 hello", "Fwd: @goulard3120 minutes", "=?utf-8?q?@goulard3120_Gr=C3=BC=C3=9Fe?="} {
		h.receive(letter{id: "<one" + string(rune('a'+i)) + "@example.com>", subject: subject})
		h.pollAfter(time.Minute)
	}
	ids := h.ids()
	all := h.sent()
	if len(all) < 4 {
		t.Fatalf("sent: %s", h.kinds())
	}
	for _, m := range all {
		answer := message.ReplySubject(m.head.Subject)
		if !ids.Ours(m.head.MessageID) || !ids.OfThread(m.head.MessageID, answer) {
			t.Errorf("%s with the subject %q: the answer %q is of another thread", m.head.MessageID, m.head.Subject, answer)
		}
		for _, other := range all {
			if other.head.Subject != m.head.Subject && ids.OfThread(m.head.MessageID, other.head.Subject) {
				t.Errorf("%s is of the thread %q too", m.head.MessageID, other.head.Subject)
			}
		}
	}
	key, err := os.ReadFile(h.agent.Store.Path(store.IDKeyFile))
	check(t, err)
	secret, _, _ := strings.Cut(strings.TrimPrefix(string(key), `{"secret":"`), `"`)
	if rest := strings.Replace(h.snapshot(), secret, "", 1); len(secret) != 44 || strings.Contains(rest, secret) {
		t.Error("the key is in another file")
	}
}

// A lost or damaged key is replaced, and mail goes on.
func TestLostIDKeyIsReplaced(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"lost":       os.Remove,
		"damaged":    func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"unreadable": func(path string) error { return os.Chmod(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "unreadable" && os.Geteuid() == 0 {
				t.Skip("root reads everything")
			}
			h := newAwakeFixture(t)
			first := h.ids()
			check(t, damage(h.agent.Store.Path(store.IDKeyFile)))
			h.receive(letter{id: "<one@example.com>"})
			h.poll()
			replies := h.sentOf("reply")
			if len(replies) != 1 {
				t.Fatalf("sent: %s", h.kinds())
			}
			ids := h.ids()
			if bytes.Equal(ids.Secret, first.Secret) || !ids.Ours(replies[0].head.MessageID) {
				t.Errorf("the reply has the id %s", replies[0].head.MessageID)
			}
		})
	}
}
