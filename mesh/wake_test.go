package mesh

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/state"
)

func testWake(address, handle string) string {
	return "http://" + address + WakePath(handle, rand.Text())
}

// TestWakeAddressIsCalled checks that a nudge or a message causes a call to the wake address without
// any text of the sender. A burst causes few calls, the last one after the last nudge. An address
// that refuses connections is removed.
func TestWakeAddressIsCalled(t *testing.T) {
	secret := rand.Text()
	rung, hold := make(chan bool, 200), make(chan struct{})
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) > 0 || r.Method != "POST" || r.URL.Path != WakePath("goulard", secret) {
			t.Errorf("called by %s %s with %q: %v", r.Method, r.URL, body, err)
		}
		rung <- true
		<-hold
	}))
	defer listener.Close()
	clock := newTestClock()
	s, url := startServer(t, Options{Tokens: twoTokens(), Now: clock.now})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	if err := g.Register(t.Context(), Presence{Phase: state.IDLE, Wake: listener.URL + WakePath("goulard", secret)}); err != nil {
		t.Fatal(err)
	}
	// A poll that publishes its phase keeps the listener's address.
	if err := g.Register(t.Context(), Presence{Phase: state.PREP}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Send(t.Context(), Message{To: "goulard", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	<-rung
	began := time.Now()
	for i := range 100 { // during the first call
		s.mu.Lock()
		clock.Time = clock.Add(time.Minute)
		s.mu.Unlock()
		if err := d.Nudge(t.Context(), "goulard", "", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	close(hold)
	s.rings.Wait()
	listener.Close() // waits for the calls in progress
	// One call, plus one for each call that timed out.
	if limit := 1 + int(time.Since(began)/ringTimeout); len(rung) < 1 || len(rung) > limit {
		t.Errorf("%d calls after the burst, want 1 to %d", len(rung), limit)
	}
	if err := d.Nudge(t.Context(), "goulard", "", ""); err != nil {
		t.Fatal(err)
	}
	s.rings.Wait()
	if wake := s.ledger.agents["goulard"].Wake; wake != "" {
		t.Errorf("still calls %s", wake)
	}
}

// TestNoOtherAddressIsCalled checks that the mesh only calls an address that our listener makes for
// the agent itself, for any caller and for any address that an older mesh has stored.
func TestNoOtherAddressIsCalled(t *testing.T) {
	var mu sync.Mutex
	var called []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		called = append(called, r.Method+" "+r.URL.String())
	}))
	defer other.Close()
	address := strings.TrimPrefix(other.URL, "http://")
	port := address[strings.LastIndex(address, ":"):]
	good := WakePath("goulard", rand.Text())
	secret := good[strings.LastIndex(good, "/")+1:]
	s, url := startServer(t, Options{Tokens: twoTokens(), Now: newTestClock().now})
	g := client(url, "goulard", "tg")
	var wakes []string
	for _, path := range []string{
		"", "/", "/containers/create", "/v1.41/containers/create?image=x", "/secret", "/nudge", "/wake", "/wake/goulard",
		"/wake/goulard/short", "/agentstateloop/wake/goulard", "/agentstateloop/wake/goulard/", good[:len(good)-1], good + "A", good + "/", good + "/x",
		good + "?a=b", good + "?", good + "#x", good + "#", "/" + good, "/x" + good, good + "/../../../../containers/create",
		"/containers/create/.." + good, strings.ToLower(good), WakePath("dorlange", secret), WakePath("", secret),
		strings.Replace(good, "wake", "%77ake", 1), strings.Replace(good, "/wake", "%2Fwake", 1), WakePath("goulard", "%41"+secret[:25]),
		WakePath("goulard", secret[:24]+"\r\n"), WakePath("goulard", secret[:25]+"0"), WakePath("goulard", secret[:25]+" "),
		WakePath("goulard", secret[:25]+"/"), WakePath("goulard", strings.Repeat("A", 4000)),
	} {
		wakes = append(wakes, other.URL+path)
	}
	for _, host := range []string{
		"http://localhost" + port, "HTTP://" + address, "https://" + address, "http://a:b@" + address, "http://@" + address, "//" + address, address,
		"http://127.0.0.1", "http://127.0.0.1:", "http://127.0.0.1:0", "http://127.0.0.1:99999", "http://127.0.0.1:0" + port[1:], "http://127.1" + port,
		"http://2130706433" + port, "http://0x7f.1" + port, "http://0.0.0.0" + port, "http://[::]" + port, "http://192.0.2.1" + port,
		"http://169.254.169.254:80", "http://127.0.0.1.example.com" + port, "http://[::1%25lo]" + port, "ftp://" + address, "gopher://" + address,
		"http://127.0.0.1" + port + "\t", "http://127.0.0.1" + port + "\r\nX: y", " http://" + address,
	} {
		wakes = append(wakes, host+good)
	}
	d := client(url, "dorlange", "td")
	for _, wake := range wakes {
		err := g.Register(t.Context(), Presence{Phase: state.IDLE, Wake: wake})
		if wake != other.URL && err == nil {
			t.Errorf("%q was accepted", wake)
		}
		// An address stored by an older version is not called either.
		s.mu.Lock()
		s.ledger.agents["goulard"] = Presence{Handle: "goulard", Wake: wake}
		s.mu.Unlock()
		s.ring("goulard", true)
		s.rings.Wait()
	}
	mu.Lock()
	defer mu.Unlock()
	if len(called) > 0 {
		t.Errorf("%d of %d addresses were called: %q", len(called), len(wakes), called)
	}
	// A listener of an older version stays in the registry. Its address is ignored.
	old := other.URL + "/wake/goulard/" + secret
	if err := g.Register(t.Context(), Presence{Phase: state.IDLE, Wake: old}); err != nil || s.ledger.agents["goulard"].Wake != "" {
		t.Errorf("an older listener: %v, %q", err, s.ledger.agents["goulard"].Wake)
	}
	if on, err := d.Online(t.Context()); err != nil || len(on) != 1 {
		t.Errorf("online: %+v, %v", on, err)
	}
	for _, host := range []string{address, "[::1]:8802", "127.9.9.9:1"} {
		if err := g.Register(t.Context(), Presence{Wake: testWake(host, "goulard")}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if err := loopbackOnly("tcp", "192.0.2.1:9", nil); err == nil {
		t.Error("a call off the machine")
	}
}

// TestUnprovenRingsArePaced checks that unproven senders together ring an agent five times a minute,
// under any number of invented names.
func TestUnprovenRingsArePaced(t *testing.T) {
	rings := make(chan bool, 1000)
	listener := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { rings <- true }))
	defer listener.Close()
	s, url := startServer(t, Options{Tokens: twoTokens(), Open: true, Now: newTestClock().now})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	wake := testWake(strings.TrimPrefix(listener.URL, "http://"), "goulard")
	if err := g.Register(t.Context(), Presence{Phase: state.IDLE, Wake: wake}); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		liar := &Client{URL: url, Handle: fmt.Sprint("liar", i), Timeout: time.Minute}
		if err := liar.Nudge(t.Context(), "goulard", "", ""); err != nil {
			t.Fatal(err)
		}
		s.rings.Wait()
	}
	if len(rings) != callsPerMinute {
		t.Errorf("%d rings", len(rings))
	}
	if err := d.Nudge(t.Context(), "goulard", "", ""); err != nil {
		t.Fatal(err)
	}
	s.rings.Wait()
	if len(rings) != callsPerMinute+1 {
		t.Errorf("a proven sender: %d rings", len(rings))
	}
}

// FuzzWake checks that an accepted address is always a loopback IP, a port and the path of our
// listener for this agent.
func FuzzWake(f *testing.F) {
	secret := rand.Text()
	for _, address := range []string{"127.0.0.1:80", "[::1]:8802", "[::ffff:127.0.0.1]:1", "localhost:80", "127.0.0.1:65536", "127.0.0.1%00:80"} {
		f.Add("goulard", "http://"+address+WakePath("goulard", secret))
	}
	f.Add("goulard", "http://127.0.0.1:80/wake/goulard/"+secret)
	f.Add("a", "http://127.0.0.1:2375/containers/create?"+WakePath("a", secret))
	f.Fuzz(func(t *testing.T, handle, wake string) {
		if !state.ValidHandle(handle) || checkWake(handle, wake) != nil {
			return
		}
		r, err := http.NewRequest(http.MethodPost, wake, nil)
		if err != nil {
			t.Fatalf("%q: %v", wake, err)
		}
		ip := net.ParseIP(r.URL.Hostname())
		path, secret := r.URL.RequestURI(), wake[len(wake)-26:]
		if ip == nil || !ip.IsLoopback() || r.Host != r.URL.Host || path != WakePath(handle, secret) || strings.ContainsAny(secret, "/.%?#") {
			t.Errorf("%q is called as %s at %s", wake, path, r.Host)
		}
		if isOldWake(handle, wake) {
			t.Errorf("%q is taken and ignored", wake)
		}
	})
}
