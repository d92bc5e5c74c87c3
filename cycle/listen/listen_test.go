package listen_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

const bearer = "Bearer " + token

// Every way in takes an idle agent to PREP.
func TestEveryWayWakes(t *testing.T) {
	ways := map[string]func(h *house){
		"webhook": func(h *house) {
			if code := h.call("POST", "/nudge", `{"from": "backup", "reason": "it failed"}`, "Authorization", bearer); code != http.StatusAccepted {
				h.t.Fatalf("answered %d", code)
			}
		},
		"webhook by handle": func(h *house) {
			if code := h.call("POST", "/nudge/@"+handle, "", "Authorization", bearer); code != http.StatusAccepted {
				h.t.Fatalf("answered %d", code)
			}
		},
		"nudge":     func(h *house) { check(h.t, h.agent.Ring("test", "")) },
		"mesh ring": func(h *house) { check(h.t, h.peer.Nudge(h.t.Context(), handle, "", "")) },
		"mesh message": func(h *house) {
			_, err := h.peer.Send(h.t.Context(), mesh.Message{To: handle, Text: "hello"})
			check(h.t, err)
		},
		"mail": func(h *house) { h.receive("one") },
		"file": func(h *house) {
			tmp := filepath.Join(h.t.TempDir(), "n")
			check(h.t, os.WriteFile(tmp, []byte("the disk is full\n"), 0o600))
			check(h.t, os.Rename(tmp, h.agent.Store.Path(filepath.Join(state.NudgesDir, "n"))))
		},
	}
	for name, ring := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.listen()
			ring(h)
			h.untilPhase(state.PREP)
		})
	}
}

func TestPipe(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	path := filepath.Join(t.TempDir(), "pipe")
	h.listen(func(l *listen.Listener) { l.Pipe = path })
	write := func(line string) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		check(t, err)
		_, err = f.WriteString(line)
		check(t, errors.Join(err, f.Close()))
	}
	write("the build is green\n" + strings.Repeat("x", 1<<15) + "\n")
	h.untilPhase(state.PREP)
	write("again\n")
	h.until("three nudges", func(state.State) bool { return h.nudged() == 3 })

	// Something else in its place is no pipe, at the start too.
	plain := filepath.Join(t.TempDir(), "plain")
	check(t, os.WriteFile(plain, nil, 0o600))
	l := &listen.Listener{Agents: []*cycle.Agent{newHouse(t).agent}, Pipe: plain, Tell: h.tell}
	if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no named pipe") {
		t.Errorf("a file as pipe: %v", err)
	}
}

// A file in the pipe's place is told of; when it is gone, the pipe is there again.
func TestPipeReplaced(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	path := filepath.Join(t.TempDir(), "pipe")
	told := make(chan string, 10)
	h.listen(func(l *listen.Listener) {
		l.Pipe = path
		l.Tell = func(format string, args ...any) { told <- fmt.Sprintf(format, args...) }
	})
	check(t, os.Remove(path))
	check(t, os.WriteFile(path, nil, 0o600))
	if text := <-told; !strings.Contains(text, "no named pipe") {
		t.Errorf("told %q", text)
	}
	check(t, os.Remove(path))
	for { // it is made anew
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if errors.Is(err, os.ErrNotExist) {
			<-time.After(10 * time.Millisecond)
			continue
		}
		check(t, err)
		_, err = f.WriteString("ring\n")
		check(t, errors.Join(err, f.Close()))
		break
	}
	h.untilPhase(state.PREP)
}

// wire passes connections on to the mail server, and can break them all.
type wire struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	taken chan struct{} // a word for each; holds one
}

func (w *wire) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns = append(w.conns, conn)
		select {
		case w.taken <- struct{}{}:
		default:
		}
	}
	return conn, err
}

// A mail server that goes away is come back to, and what came meanwhile is
// found.
func TestTheMailServerComesBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	w := &wire{Listener: ln, taken: make(chan struct{}, 1)}
	go h.mail.ServeIMAP(w) // ends with Close
	h.agent.Mail.Box.Addr = ln.Addr().String()
	h.listen()
	<-w.taken
	w.mu.Lock()
	for _, conn := range w.conns {
		conn.Close()
	}
	w.mu.Unlock()
	h.receive("one")
	h.untilPhase(state.PREP)
}

// nudged counts the nudges in the history.
func (h *house) nudged() int {
	n := 0
	for l, err := range h.agent.Store.History() {
		check(h.t, err)
		if l.Kind == state.LineNudge {
			n++
		}
	}
	return n
}

// A hundred nudges while a poll runs are one more poll.
func TestABurstIsOnePoll(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.listen()
	gate := make(chan struct{})
	h.mesh.hold.Store(&gate)
	before := h.mesh.looks.Load()
	check(t, h.agent.Ring("first", ""))
	for h.mesh.looks.Load() == before {
		// The poll is about to be held; it cannot be told otherwise.
		<-time.After(time.Millisecond)
	}
	for range 100 {
		if code := h.call("POST", "/nudge", "", "Authorization", bearer); code != http.StatusAccepted {
			t.Fatalf("answered %d", code)
		}
	}
	h.mesh.hold.Store(nil)
	close(gate)
	h.until("all nudges", func(state.State) bool { return h.nudged() == 101 })
	// The poll looks once more by itself, and the listener polls once more.
	if n := h.mesh.looks.Load() - before; n > 3 {
		t.Errorf("%d polls", n)
	}
}

// What came while no listener was there is found by the next, by what lies where
// it came from.
func TestNothingIsLostBetweenListeners(t *testing.T) {
	for name, ring := range map[string]func(h *house){
		"nudge": func(h *house) { check(h.t, h.agent.Ring("test", "")) },
		"mesh":  func(h *house) { check(h.t, h.peer.Nudge(h.t.Context(), handle, "", "")) },
		"mail":  func(h *house) { h.receive("one") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.listen()()
			ring(h)
			h.listen()
			h.untilPhase(state.PREP)
		})
	}
}

func TestTheSecondListenerLeaves(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.listen()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer web.Close()
	l := &listen.Listener{Agents: []*cycle.Agent{h.agent}, Web: web, Tell: h.tell}
	if err := l.Run(t.Context()); !errors.Is(err, listen.ErrTaken) {
		t.Errorf("a second listener: %v", err)
	}
}

// A mesh that was away finds us again, with our wake address.
func TestTheMeshComesBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.mesh.down.Store(true)
	h.listen()
	h.mesh.down.Store(false)
	check(t, h.peer.Nudge(t.Context(), handle, "", ""))
	h.untilPhase(state.PREP)
}

func TestNudgesMadeAnew(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.listen()
	check(t, os.RemoveAll(h.agent.Store.Path(state.NudgesDir)))
	check(t, h.agent.Ring("test", ""))
	h.untilPhase(state.PREP)
}

func TestWebRefuses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.listen()
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		want                     int
	}{
		{"no token", "POST", "/nudge", "", nil, 401},
		{"a wrong token", "POST", "/nudge", "", []string{"Authorization", "Bearer nope"}, 401},
		{"another scheme", "POST", "/nudge", "", []string{"Authorization", "Basic " + token}, 401},
		{"a foreign Host", "POST", "/nudge", "", []string{"Authorization", bearer, "Host", "evil.example"}, 403},
		{"an Origin", "POST", "/nudge", "", []string{"Authorization", bearer, "Origin", "https://evil.example"}, 403},
		{"a long body", "POST", "/nudge", `{"reason": "` + long + `"}`, []string{"Authorization", bearer}, 413},
		{"garbage", "POST", "/nudge", "{[", []string{"Authorization", bearer}, 400},
		{"an unknown handle", "POST", "/nudge/nobody", "", []string{"Authorization", bearer}, 404},
		{"dots", "POST", "/nudge/..%2f..%2fetc", "", []string{"Authorization", bearer}, 404},
		{"GET", "GET", "/nudge", "", []string{"Authorization", bearer}, 405},
		{"another path", "POST", "/", "", []string{"Authorization", bearer}, 404},
		{"a guessed wake address", "POST", "/wake/" + handle + "/secret", "", nil, 404},
	} {
		if got := h.call(c.method, c.path, c.body, c.header...); got != c.want {
			t.Errorf("%s: answered %d, want %d", c.name, got, c.want)
		}
	}
	if n := h.nudged(); n != 0 {
		t.Errorf("%d nudges came of it", n)
	}
}

func TestWebWithoutToken(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.listen(func(l *listen.Listener) { l.Token = nil })
	if got := h.call("POST", "/nudge", ""); got != http.StatusForbidden {
		t.Errorf("answered %d", got)
	}
}

// The wake address is in the registry, and answers; its secret is in no list.
func TestWakeAddress(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.listen()
	wake := <-h.mesh.wakes
	path, ok := strings.CutPrefix(wake, h.web)
	if !ok {
		t.Fatalf("the wake address is %q", wake)
	}
	if got := h.call("POST", path, `{"from": "dorlange3120"}`); got != http.StatusAccepted {
		t.Errorf("answered %d", got)
	}
	all, err := h.peer.Online(t.Context())
	check(t, err)
	if len(all) != 1 || all[0].Handle != handle || all[0].Wake != "" {
		t.Errorf("online: %+v", all)
	}
}

// Systemd is told over its socket.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	check(t, err)
	defer conn.Close()
	check(t, listen.Notify(path, listen.Ready))
	buf := make([]byte, 64)
	n, err := conn.Read(buf)
	check(t, err)
	if got := string(buf[:n]); got != "READY=1" {
		t.Errorf("told %q", got)
	}
	check(t, listen.Notify("", listen.Ready))
	if err := listen.Notify(filepath.Join(t.TempDir(), "nobody"), listen.Ready); err == nil {
		t.Error("nobody was told, and it is no error")
	}
}

func TestUnit(t *testing.T) {
	unit := listen.Unit([]string{"/opt/a b/agentstateloop", "listen", `50%"$x`})
	for _, want := range []string{
		`ExecStart="/opt/a b/agentstateloop" "listen" "50%%\"$$x"`, "KillMode=process", "Type=notify", "WantedBy=default.target",
	} {
		if !strings.Contains(unit, want+"\n") {
			t.Errorf("%q is missing in:\n%s", want, unit)
		}
	}
}

// Two agents share a mailbox: one connection, and both are woken.
func TestSeveralAgents(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	other := h.newAgent(peer)
	_, err := other.Poll(t.Context(), cycle.PollOptions{})
	check(t, err)
	h.listen(func(l *listen.Listener) { l.Agents = append(l.Agents, other) })
	h.receive("one")
	h.untilPhase(state.PREP)
	if got := h.call("POST", "/nudge", "", "Authorization", bearer); got != http.StatusNotFound {
		t.Errorf("whom? answered %d", got)
	}
	if got := h.call("POST", "/nudge/"+peer, "", "Authorization", bearer); got != http.StatusAccepted {
		t.Errorf("answered %d", got)
	}
	if s, err := h.agent.Store.Read(); err != nil || s.Phase != state.PREP {
		t.Errorf("%s, %v", s.Phase, err)
	}
}
