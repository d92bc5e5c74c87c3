package commands

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

const (
	connections       = 10_000 // open at once, if all that is real is required
	silentConnections = 4_000  // of them send nothing; just below maxConnections

	// filesNeeded counts the file descriptors that they take. Both ends are
	// in this process. It holds at most maxConnections of the far ends. Other
	// tests run at the same time.
	filesNeeded = connections + maxConnections + 2000
)

// TestTenThousandConnections fills nearly every place with connections that send
// nothing. Six thousand callers at once still get their answers, and every message
// and nudge that the server accepted is there. Unless all that is real is required there
// are six hundred.
func TestTenThousandConnections(t *testing.T) {
	t.Parallel()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < filesNeeded {
		t.Skipf("this process may open %d files, and the test needs %d: ulimit -n %[2]d", limit.Cur, filesNeeded)
	}
	t.Run("mesh serve", func(t *testing.T) {
		dir := tempDir(t)
		tokens := filepath.Join(dir, "tokens")
		if err := os.WriteFile(tokens, []byte("goulard3120 one\ndorlange3120 two\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		server := start(t, "mesh", "serve", "--addr", "127.0.0.1:0", "--dir", filepath.Join(dir, "mesh"), "--tokens", tokens)
		addr := strings.TrimPrefix(server.first, "mesh at http://")
		answers := connectAll(t, addr, func(i int) string {
			switch {
			case i%(numberOfCallers()/3) == 0: // three messages: one sender may send five a minute
				return postRequest(addr, "/message", "one", fmt.Sprintf(`{"id":"m%d","to":"dorlange3120","message":"hello"}`, i))
			case i%2 == 0:
				return getRequest(addr, "/mailbox/dorlange3120", "two")
			}
			return getRequest(addr, "/mailbox/dorlange3120", "three")
		})
		if answers[http.StatusAccepted] != 3 || answers[http.StatusOK] != numberOfCallers()/2-3 || answers[http.StatusUnauthorized] != numberOfCallers()/2 {
			t.Errorf("answers: %v", answers)
		}
		server.end(t)
	})
	t.Run("the webhook of listen", func(t *testing.T) {
		path := writeConfig(t, "[agent]\nhandle = \"goulard3120\"\noperator = [\"you@example.com\"]\nstate_dir = \"state\"\n[turn]\nrunner = \"none\"\n[schedule]\nmode = \"none\"\n")
		token := filepath.Join(filepath.Dir(path), "token")
		if err := os.WriteFile(token, []byte("open sesame\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		server := start(t, "--config", path, "listen", "--token-file", token)
		addr := strings.TrimPrefix(server.first, "listening for 1 agent at http://")
		answers := connectAll(t, addr, func(i int) string {
			if i%(numberOfCallers()/60) == 0 { // each is fsynced
				return postRequest(addr, "/nudge", "open sesame", `{"from":"crowd"}`)
			}
			return postRequest(addr, "/nudge", "wrong", "{}")
		})
		if answers[http.StatusAccepted] != 60 || answers[http.StatusUnauthorized] != numberOfCallers()-60 {
			t.Errorf("answers: %v", answers)
		}
		server.end(t)
		store := &store.Store{Dir: filepath.Join(filepath.Dir(path), "state"), Agent: "goulard3120"}
		nudges, err := store.Nudges() // no poll has taken these yet
		if err != nil {
			t.Fatal(err)
		}
		n := len(nudges)
		for l, err := range store.History() {
			if err != nil {
				t.Fatal(err)
			}
			if l.Kind == state.LineNudge {
				n++
			}
		}
		s, err := store.Read()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range s.Lines {
			if l.Kind == state.LineNudge {
				n++
			}
		}
		if n < 60 {
			t.Errorf("%d nudges are on disk, want the 60 that were accepted", n)
		}
	})
}

// numberOfCallers counts those that send a request.
func numberOfCallers() int { return part(connections-silentConnections, 600) }

// getRequest returns a GET request as it stands on the wire.
func getRequest(addr, path, token string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, addr, token)
}

// postRequest returns a POST request with a JSON body as it stands on the wire.
func postRequest(addr, path, token, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", path, addr, token, len(body), body)
}

// connectAll opens all connections. It sends call(i) on those that are not silent,
// and returns the number of answers by status code.
func connectAll(t *testing.T, addr string, call func(i int) string) map[int]int {
	t.Helper()
	silent := make([]net.Conn, silentConnections)
	defer func() {
		for _, conn := range silent {
			if conn != nil {
				conn.Close()
			}
		}
	}()
	var dialed sync.WaitGroup
	for i := range silent {
		dialed.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			silent[i] = conn
		})
	}
	dialed.Wait()

	var counts [600]atomic.Int32
	var callers sync.WaitGroup
	for i := range numberOfCallers() {
		callers.Go(func() {
			code, err := sendRequest(addr, call(i))
			if err != nil {
				t.Error(err)
				return
			}
			counts[code].Add(1)
		})
	}
	callers.Wait()
	answers := map[int]int{}
	for code := range counts {
		if n := int(counts[code].Load()); n > 0 {
			answers[code] = n
		}
	}
	return answers
}

// sendRequest sends a request on a connection of its own, and returns the status
// code of the answer.
func sendRequest(addr, request string) (code int, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(request)); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}
