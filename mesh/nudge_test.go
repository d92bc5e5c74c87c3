package mesh

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// A mailbox holds one of a hundred nudges. A nudge that arrives after the mailbox
// was read is not acknowledged along with the one that was read.
func TestNudgesCoalesce(t *testing.T) {
	_, url := startServer(t, Options{Tokens: twoTokens()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	held := func() []Message {
		box, err := g.Mailbox(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return box.Messages
	}
	for i := range 100 {
		if err := d.Nudge(t.Context(), "goulard", "", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	first := held()
	if len(first) != 1 || first[0].Text != "99" {
		t.Fatalf("held: %+v", first)
	}
	if err := d.Nudge(t.Context(), "goulard", "", "late"); err != nil {
		t.Fatal(err)
	}
	if err := g.Ack(t.Context(), first[0].ID); err != nil {
		t.Fatal(err)
	}
	if late := held(); len(late) != 1 || late[0].Text != "late" {
		t.Errorf("after the acknowledgement: %+v", late)
	}
}

// A nudge and a message cause a call to the wake address. A burst causes few
// calls, the last of them after the last nudge. An address that refuses
// connections is removed.
func TestWakeAddressIsCalled(t *testing.T) {
	rung := make(chan nudgeBody, 200)
	hold := make(chan struct{})
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got nudgeBody
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.Method != "POST" || r.URL.Path != "/secret" {
			t.Errorf("called by %s %s: %v", r.Method, r.URL, err)
		}
		rung <- got
		<-hold
	}))
	defer listener.Close()
	s, url := startServer(t, Options{Tokens: twoTokens()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	if err := g.Register(t.Context(), Presence{Phase: state.IDLE, Wake: listener.URL + "/secret"}); err != nil {
		t.Fatal(err)
	}
	// A poll that publishes its phase leaves the listener's address alone.
	if err := g.Register(t.Context(), Presence{Phase: state.PREP}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Send(t.Context(), Message{To: "goulard", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if r := <-rung; r.From != "dorlange" || r.Reason != KindMessage {
		t.Errorf("called by %+v", r)
	}
	began := time.Now()
	for i := range 100 { // while the first call is under way
		if err := d.Nudge(t.Context(), "goulard", "", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	close(hold)
	s.rings.Wait()
	listener.Close() // waits for the calls that it answers
	// One call, and one for each call that timed out meanwhile.
	if most := 1 + int(time.Since(began)/(2*time.Second)); len(rung) > most {
		t.Errorf("%d calls, want %d at most", len(rung), most)
	}
	var answer []string
	for len(rung) > 0 {
		answer = append(answer, (<-rung).Reason)
	}
	if !slices.Contains(answer, "99") {
		t.Errorf("the calls after the burst say %q", answer)
	}

	if err := s.callWake("http://192.0.2.1:9/", nudgeBody{}); err == nil || !strings.Contains(err.Error(), "not a loopback address") {
		t.Errorf("a call off the machine: %v", err)
	}
	if err := d.Nudge(t.Context(), "goulard", "", ""); err != nil {
		t.Fatal(err)
	}
	s.rings.Wait()
	if wake := s.ledger.agents["goulard"].Wake; wake != "" {
		t.Errorf("still calls %s", wake)
	}
}
