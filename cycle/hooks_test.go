package cycle_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/hook"
	"agentstateloop/state"
)

// addHooks gives the agent of h hooks, and returns what the addresses among them got: a
// line for each call, with its id and event. answer decides, by path and number of the
// call there, the code; 0: it hangs until the test ends.
func (h *fixture) addHooks(answer func(path string, n int) int, hooks ...hook.Hook) (got func(path string) []string) {
	var mu sync.Mutex
	calls := map[string][]string{}
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		calls[r.URL.Path] = append(calls[r.URL.Path], r.Header.Get(hook.DeliveryHeader)+" "+string(body))
		n := len(calls[r.URL.Path])
		mu.Unlock()
		code := answer(r.URL.Path, n)
		if code == 0 {
			<-hang
			return
		}
		w.WriteHeader(code)
	}))
	h.t.Cleanup(server.Close)
	h.t.Cleanup(func() { close(hang) })
	for _, configured := range hooks {
		if configured.Program == nil {
			configured.Address = &hook.Address{URL: server.URL + "/" + configured.Name, ContentType: "text/plain", Now: h.clock.Now}
			configured.Body = template.Must(template.New("").Parse("{{.Event}}"))
		}
		h.agent.Hooks = append(h.agent.Hooks, configured)
		h.agent.Policy.Hooks = append(h.agent.Policy.Hooks, state.HookPolicy{Name: configured.Name, On: configured.On})
	}
	return func(path string) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls[path])
	}
}

// While a hook hangs, mail is sent and another hook is called, and the poll reports no failure.
func TestHangingHookDelaysNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.playScript("echo yes\n")
	all := []string{"task", "phase", "ack"}
	got := h.addHooks(func(path string, _ int) int {
		if path == "/hangs" {
			return 0
		}
		return 204
	}, hook.Hook{Name: "hangs", On: all, Timeout: time.Second}, hook.Hook{Name: "works", On: all, Timeout: time.Minute})
	h.receive(letter{id: "<q@example.com>", body: "is it red?"})
	done := pollOf(t.Context(), h.agent, cycle.PollOptions{})
	until(t, "the mail and the other hook", func() bool {
		if len(done) > 0 {
			t.Fatal("the poll ended first")
		}
		return len(h.sentOf("reply")) > 0 && len(got("/works")) >= 3
	})
	r := <-done
	if r.err != nil || len(r.report.Failed) != 0 || r.report.Turns != 1 {
		t.Errorf("%+v, %v", r.report, r.err)
	}
	s := h.state()
	if n := len(s.HookCalls); n != 3 || !s.FailingHooks["hangs"].Fails() || s.FailingHooks["works"].Fails() || len(got("/hangs")) != 1 {
		t.Errorf("%d rows wait, %+v fail", n, s.FailingHooks)
	}
	var events []string
	for _, call := range got("/works") {
		_, event, _ := strings.Cut(call, " ")
		events = append(events, event)
	}
	if want := []string{"phase.PREP", "ack", "task.success"}; !slices.Equal(events, want) {
		t.Errorf("the hook that works heard %v, want %v", events, want)
	}
	if st, err := h.agent.View().Status(); err != nil || st.Sending != nil || st.Offline || st.Outbox.Waiting != 3 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A call is repeated under its id, in order, until it is accepted; a permanently refused call is
// lost. `poll --if-due` reads no source for it.
func TestHookRetries(t *testing.T) {
	h := newFixture(t)
	got := h.addHooks(func(_ string, n int) int { return []int{500, 404, 503, 200}[min(n, 4)-1] }, hook.Hook{Name: "x", On: []string{"halt", "go"}, Timeout: time.Minute})
	h.agent.Policy.Notices = false
	h.poll()
	for range 2 {
		h.halt()
		h.resume()
	}
	check(t, h.agent.CallHooks(t.Context()))
	if n := len(got("/x")); n != 1 {
		t.Fatalf("%d calls before the pause", n)
	}
	traffic := h.traffic.settled()
	for range 4 {
		h.clock.advance(2 * time.Minute)
		_, err := h.agent.Poll(t.Context(), cycle.PollOptions{IfDue: true})
		check(t, err)
	}
	if h.traffic.settled() != traffic {
		t.Error("a poll for hooks has read mail")
	}
	ids := map[string]int{}
	var order []string
	for _, call := range got("/x") {
		ids[call]++
		if order = append(order, call[strings.Index(call, " ")+1:]); len(order) > 1 && ids[call] > 1 {
			order = order[:len(order)-1]
		}
	}
	if want := []string{"halt", "go", "halt", "go"}; !slices.Equal(order, want) || len(got("/x")) != 6 {
		t.Errorf("%v in %v", order, got("/x"))
	}
	s := h.state()
	if len(s.HookCalls) != 0 || s.FailingHooks["x"].Fails() {
		t.Errorf("%+v, %+v", s.HookCalls, s.FailingHooks)
	}
	lost := 0
	for _, l := range h.lines(state.LineDelivery) {
		if strings.HasPrefix(l.ID, "hook.") && l.What == "undeliverable" {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d lost", lost)
	}
	files, err := filepath.Glob(filepath.Join(h.agent.Store.Dir, "outbox", "hook*"))
	if err != nil || len(files) != 0 {
		t.Errorf("left in the outbox: %v, %v", files, err)
	}
}

// A call that the hook refuses permanently during `outbox retry` counts as not sent.
func TestRetryOfRefusedHookCall(t *testing.T) {
	h := newFixture(t)
	h.addHooks(func(_ string, n int) int { return []int{500, 404}[n-1] }, hook.Hook{Name: "x", On: []string{"halt"}, Timeout: time.Minute})
	h.halt()
	check(t, h.agent.CallHooks(t.Context()))
	r, sent, err := h.agent.RetryEffect(t.Context(), h.state().HookCalls[0].ID)
	check(t, err)
	if sent || r.Status != cycle.RowLost || !strings.Contains(r.Reason, "404") {
		t.Errorf("%v, %+v", sent, r)
	}
}

// A row whose file is damaged is made again, from the event that it holds.
func TestDamagedHookCallIsRenderedAgain(t *testing.T) {
	h := newFixture(t)
	got := h.addHooks(func(string, int) int { return 200 }, hook.Hook{Name: "x", On: []string{"halt"}, Timeout: time.Minute})
	h.halt()
	check(t, os.WriteFile(filepath.Join(h.agent.Store.Dir, h.state().HookCalls[0].File), []byte("rm -rf"), 0o600))
	check(t, h.agent.CallHooks(t.Context()))
	if calls := got("/x"); len(calls) != 1 || !strings.HasSuffix(calls[0], " halt") {
		t.Errorf("%v", calls)
	}
}
