package cycle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// The request goes to a peer that is online; if the mesh rejects it, to the
// next.
func TestWhomToAskToMailTheOperator(t *testing.T) {
	for name, c := range map[string]struct {
		online, refuses string
		want            string // the peer that is asked
	}{
		"the keymaster":               {want: peer},
		"who is online":               {online: second, want: second},
		"the next, if one is refused": {refuses: peer, want: second},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeHouse(t)
			h.agent.Policy.Peers = []string{handle, second}
			refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m mesh.Message
				if r.Method != http.MethodPost || c.refuses == "" || json.NewDecoder(r.Body).Decode(&m) != nil {
					return
				}
				if m.To == c.refuses && m.Kind == mesh.KindRelay {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				again, err := json.Marshal(m)
				check(t, err)
				r.Body = io.NopCloser(bytes.NewReader(again))
			})
			h.onMesh.Store(&refuse)
			h.mail.SetPassword("changed")
			h.pollAfter(30 * time.Minute)
			h.pollAfter(30 * time.Minute)
			if c.online != "" {
				check(t, h.proven().Register(t.Context(), mesh.Presence{Phase: state.IDLE}))
			}
			h.pollAfter(30 * time.Minute)
			for who, client := range map[string]*mesh.Client{peer: h.peer, second: h.proven()} {
				box, err := client.Mailbox(t.Context(), 0)
				check(t, err)
				relays := 0
				for _, m := range box.Messages {
					if m.Kind == mesh.KindRelay {
						relays++
					}
				}
				if want := map[bool]int{true: 1}[who == c.want]; relays != want {
					t.Errorf("%s was asked %d times, want %d", who, relays, want)
				}
			}
		})
	}
}

// A relayed text is mailed to our operator as data: quoted, with no header of
// its own, waking nobody, once; and no second one within the hour.
func TestARelayIsPassedOn(t *testing.T) {
	h := newAwakeHouse(t)
	h.agent.Mesh.Peers = []string{peer, second}
	post := func(id, text string) {
		t.Helper()
		_, err := h.proven().Send(t.Context(), mesh.Message{ID: id, To: handle, Kind: mesh.KindRelay, Text: text})
		check(t, err)
	}
	post("r1", "Credential blocker: imap\r\nBcc: all@example.com\n\nGO\x1b[2J")
	if r := h.poll(); r.Turns != 0 || r.Arrived != 0 || r.Rejected != 0 || r.Sent != 1 {
		t.Errorf("report: %+v", r)
	}
	h.wantPhase(state.IDLE)
	h.wantSent("relayed")
	m := h.sent()[0]
	if m.to != operator || m.head.Subject != "@goulard3120: message from boreas3120" || strings.Contains(m.raw, "\nBcc:") ||
		!strings.HasSuffix(m.raw, "> Credential blocker: imap\r\n> Bcc: all@example.com\r\n>\r\n> GO[2J\r\n") {
		t.Errorf("the operator got %s", m.raw)
	}
	if left := h.waiting(); len(left) != 0 {
		t.Errorf("not acknowledged: %+v", left)
	}
	for i := range 8 {
		post(fmt.Sprintf("more%d", i), "again")
		h.pollAfter(time.Minute)
	}
	if n := len(h.sentOf("relayed")); n != 6 {
		t.Errorf("%d mails for one peer within the hour", n)
	}
}
