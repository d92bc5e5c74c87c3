package cycle_test

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestUndecodableMessageIsQuarantined puts undecodable items before a message of a peer. The
// message gets its turn. The items are in quarantine with their bytes, are noted once, are
// acknowledged if they have an id, and cannot be released.
func TestUndecodableMessageIsQuarantined(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	const numbered, nameless = `{"id":"odd.1","from":"` + peer + `","message":7}`, `{"from":"` + peer + `","hops":"x"}`
	good := fmt.Sprintf(`{"id":"good.1","from":%q,"message":"hello","proven":true}`, peer)
	shown := []string{numbered, nameless, `null`, good}
	var acked []string
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/mailbox/"):
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"halted":false,"messages":[%s]}`, strings.Join(shown, ","))
		case r.Method == http.MethodDelete:
			acked = append(acked, path.Base(r.URL.Path))
			w.WriteHeader(http.StatusNoContent)
		}
	})
	h.onMesh.Store(&answer)
	h.poll()
	if slices.Sort(acked); !slices.Equal(acked, []string{"good.1", "odd.1"}) {
		t.Errorf("acknowledged: %v", acked)
	}
	if runs := h.runs(); len(runs) != 1 || !strings.Contains(h.prompt(), "hello") {
		t.Errorf("%d turns", len(runs))
	}
	shown = []string{nameless, `null`}
	h.pollAfter(time.Minute)
	h.wantCounted(3)
	items, err := h.agent.View().Quarantined()
	check(t, err)
	for _, i := range items {
		if i.Gate != "form" {
			t.Errorf("%+v", i)
		}
		if _, err := h.agent.Release(t.Context(), i.Key, state.ByHand); err == nil || !strings.Contains(err.Error(), "not a mesh message") {
			t.Errorf("release %s: %v", i.Key, err)
		}
	}
	if gates := len(h.lines(state.LineGate)); gates != 3 {
		t.Errorf("%d lines about what cannot be decoded, want 3", gates)
	}
}
