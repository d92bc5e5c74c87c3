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

// Every mail of ours carries a MAC of its thread, and ids from before none.
func TestOurMailHasIDsWithAMAC(t *testing.T) {
	t.Parallel()
	h := newAwakeHouse(t)
	for i, subject := range []string{"@goulard3120 hello", "Fwd: @goulard3120 minutes", "=?utf-8?q?@goulard3120_Gr=C3=BC=C3=9Fe?="} {
		h.receive(letter{id: "<one" + string(rune('a'+i)) + "@example.com>", subject: subject})
		h.pollAfter(time.Minute)
	}
	ids := h.ids()
	if !ids.OldUntil.IsZero() {
		t.Error("a new agent accepts ids without a MAC")
	}
	all := h.sent()
	if len(all) < 4 {
		t.Fatalf("sent: %s", h.kinds())
	}
	for _, m := range all {
		answer := message.ReplySubject(m.head.Subject)
		if !ids.Ours(m.head.MessageID, h.clock.Now()) || !ids.OfThread(m.head.MessageID, answer) {
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
	if rest := strings.Replace(h.everything(), secret, "", 1); len(secret) != 44 || strings.Contains(rest, secret) {
		t.Error("the key is in another file")
	}
}

// An agent that is upgraded makes its key with the first poll, and goes on.
func TestAnUpgradedAgentMakesItsKey(t *testing.T) {
	h := newAwakeHouse(t)
	st := h.agent.Store
	data, err := os.ReadFile(st.Path("state.json"))
	check(t, err)
	check(t, os.WriteFile(st.Path("state.json"), bytes.Replace(data, []byte(`"ids_keyed":true,`), nil, 1), 0o600))
	check(t, os.Remove(st.Path(store.IDKeyFile)))
	before := h.everything()
	_, err = h.agent.Preview(t.Context())
	check(t, err)
	if h.everything() != before {
		t.Error("a dry run has made the key")
	}

	h.receive(letter{id: "<one@example.com>", subject: "no callsign", fields: "In-Reply-To: <reply.t1.goulard3120@example.org>\r\n"})
	if r := h.poll(); r.Arrived != 1 {
		t.Errorf("report: %+v", r)
	}
	old, ids, now := "<reply.t1.goulard3120@example.org>", h.ids(), h.clock.Now()
	if !ids.Ours(old, now) || !ids.Ours(old, now.Add(13*24*time.Hour)) || ids.Ours(old, now.Add(15*24*time.Hour)) {
		t.Errorf("at %v old ids count until %v", now, ids.OldUntil)
	}
	h.pollAfter(20 * 24 * time.Hour)
	if later := h.ids(); !bytes.Equal(later.Secret, ids.Secret) || !later.OldUntil.Equal(ids.OldUntil) {
		t.Error("a later poll has made another key, or moved the end of old ids")
	}
}

// A key that is lost or damaged stops nothing.
func TestAnAgentWithoutItsKeyGoesOn(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"lost":       os.Remove,
		"damaged":    func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"unreadable": func(path string) error { return os.Chmod(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "unreadable" && os.Geteuid() == 0 {
				t.Skip("root reads everything")
			}
			h := newAwakeHouse(t)
			first := h.ids()
			check(t, damage(h.agent.Store.Path(store.IDKeyFile)))
			h.receive(letter{id: "<one@example.com>"})
			h.poll()
			replies := h.sentOf("reply")
			if len(replies) != 1 {
				t.Fatalf("sent: %s", h.kinds())
			}
			ids := h.ids()
			if bytes.Equal(ids.Secret, first.Secret) || !ids.OldUntil.IsZero() || !ids.Ours(replies[0].head.MessageID, h.clock.Now()) {
				t.Errorf("the reply has the id %s; old ids count until %v", replies[0].head.MessageID, ids.OldUntil)
			}
		})
	}
}
