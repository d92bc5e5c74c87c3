package commands

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"agentstateloop/state"
)

const (
	connections       = 10_000 // open at once, if the real servers are required
	silentConnections = 4_000  // of them without a request; just below maxConnections

	// filesNeeded counts the file descriptors of the connections and of the tests that run at the
	// same time. Both ends are in this process, which holds at most maxConnections of the far ends.
	filesNeeded = connections + maxConnections + 2000
)

// TestTenThousandConnections opens nearly as many silent connections as a server accepts. Six
// thousand callers at once still get their answers, and no message or nudge that the server
// accepted is lost. Unless the real servers are required there are six hundred callers.
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
		tokens := writeFile(t, filepath.Join(dir, "tokens"), "goulard3120 one\ndorlange3120 two\n")
		server := startProgram(t, "mesh", "serve", "--addr", "127.0.0.1:0", "--dir", filepath.Join(dir, "mesh"), "--tokens", tokens)
		addr := strings.TrimPrefix(server.firstLine, "mesh at http://")
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
		path := writeConfig(t, agentSection+"[turn]\nrunner = \"none\"\n"+noSchedule)
		token := writeFile(t, filepath.Join(filepath.Dir(path), "token"), "open sesame\n")
		server := startProgram(t, "--config", path, "listen", "--token-file", token)
		addr := strings.TrimPrefix(server.firstLine, "listening for 1 agent at http://")
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
		st := installedAgent{dir: filepath.Dir(path)}.store()
		nudges, err := st.Nudges(state.State{}) // no poll has taken these yet
		if err != nil {
			t.Fatal(err)
		}
		s, err := st.Read()
		if err != nil {
			t.Fatal(err)
		}
		n := len(nudges.New)
		for _, count := range countNudges(t, st) {
			n += count
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

// numberOfCallers returns the number of connections with a request.
func numberOfCallers() int { return part(connections-silentConnections, 600) }

// getRequest returns the bytes of a GET request.
func getRequest(addr, path, token string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, addr, token)
}

// postRequest returns the bytes of a POST request with a JSON body.
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
