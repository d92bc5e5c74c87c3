package page_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
)

// guide is the page of the guide about the page.
func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/page.md")
	check(t, err)
	return string(text)
}

// TestGuideHasTheSentences checks that the page can say each sentence of the guide's table.
func TestGuideHasTheSentences(t *testing.T) {
	var code strings.Builder
	for _, name := range []string{"handler.go", "session.go", "act.go", "stream.go"} {
		text, err := os.ReadFile(name)
		check(t, err)
		code.Write(text)
	}
	_, table, _ := strings.Cut(guide(t), "## Troubleshooting")
	rows := regexp.MustCompile("(?m)^\\| `(.*?)` \\|").FindAllStringSubmatch(table, -1)
	if len(rows) < 10 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		for _, part := range regexp.MustCompile(`"?…"?|HANDLE|"read"|16`).Split(row[1], -1) {
			if !strings.Contains(code.String(), part) {
				t.Errorf("the page cannot say %q of %q", part, row[1])
			}
		}
	}
}

// TestBehindNginx checks the whole page through a real nginx, with TLS, a path prefix and exactly the
// configuration of the guide.
func TestBehindNginx(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx, err = exec.LookPath("/usr/sbin/nginx") // which is not in the PATH of every user
	}
	if err != nil {
		requireReal(t, "nginx")
	}
	block := regexp.MustCompile(`(?m)^    server \{\n(?:(?:     .*)?\n)+    \}\n`).FindString(guide(t))
	address := regexp.MustCompile(`--page-url (https://agents\S+)`).FindStringSubmatch(guide(t))
	if block == "" || address == nil {
		t.Fatal("the guide has no configuration of nginx")
	}
	page, err := url.Parse(address[1])
	check(t, err)

	s := serve(t, func(s *served) { s.server.URL = page })
	dial, roots := startNginx(t, nginx, block, strings.TrimPrefix(s.base, "http://"), page.Hostname())
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", dial)
		},
	}
	defer transport.CloseIdleConnections()
	b := newBrowser(t, strings.TrimSuffix(page.String(), "/"), transport)

	b.send("GET", "/", "").says(t, 200, `src="page/page.js"`)
	b.send("GET", "/page/page.js", "").says(t, 200, "")
	b.send("GET", "/page/document", "").says(t, 401, "not logged in")
	b.send("POST", "/page/login", `{"token":"wrong"}`).says(t, 401, "not the token")
	b.login()
	cookies := b.client.Jar.Cookies(page.JoinPath("page/document"))
	if len(cookies) != 1 || len(b.client.Jar.Cookies(page)) != 0 {
		t.Errorf("below the page %v, outside %v", cookies, b.client.Jar.Cookies(page))
	}
	if plain, _ := url.Parse("http://agents.example.com/agents/page/document"); len(b.client.Jar.Cookies(plain)) != 0 {
		t.Error("the cookie goes without TLS")
	}
	documents, hangUp := b.follow()
	defer hangUp()
	until(t, documents, handle)
	began := time.Now()
	b.do("halt", "", "through nginx").says(t, 200, "HALTED")
	until(t, documents, "through nginx")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("an event took %v through the proxy", took)
	}
	b.send("GET", "/page/history?agent="+handle+"&q=nginx", "").says(t, 200, "through nginx")
	b.send("GET", "/metrics", "", "Authorization", "Bearer "+theToken).says(t, 200, "")

	b.do("resume", "", "").says(t, 200, "resumes")
	b.send("POST", "/page/act", `{"agent":"goulard3120","act":"halt"}`, "Origin", "https://evil.example").says(t, 403, "does not come from the page")
	b.send("POST", "/page/act", `{"agent":"goulard3120","act":"halt"}`, "Origin", s.base).says(t, 403, "does not come from the page")
	b.send("GET", "/page/document", "", "Host", "evil.example").says(t, 403, "does not serve the host")
	b.send("POST", "/nudge", `{}`, "Origin", "", "Authorization", "Bearer "+theToken).says(t, 403, "this Host is not allowed")
	if s.state().Halted() {
		t.Error("a refused request has halted the agent")
	}
	hangUp()
}

// startNginx runs nginx with a server block, in the foreground and in a folder of its own. It returns
// its address and the roots of its certificate.
func startNginx(t *testing.T, program, block, upstream, host string) (addr string, roots *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	ca, err := mailtest.NewCA()
	check(t, err)
	roots = x509.NewCertPool()
	roots.AddCert(ca.Cert)
	cert, err := ca.Issue(host)
	check(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	addr = free.Addr().String()
	check(t, free.Close())
	for from, to := range map[string]string{
		"listen 443 ssl;": "listen " + addr + " ssl;", "127.0.0.1:8802": upstream,
		"/etc/ssl/agents.example.com.pem": filepath.Join(dir, "cert.pem"), "/etc/ssl/agents.example.com.key": filepath.Join(dir, "key.pem"),
	} {
		if !strings.Contains(block, from) {
			t.Fatalf("the guide's configuration has no %q", from)
		}
		block = strings.ReplaceAll(block, from, to)
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n"
	}
	conf := user + "daemon off;\nmaster_process on;\npid nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		conf += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
	}
	check(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf+block+"}\n"), 0o600))
	cmd := exec.Command(program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	check(t, cmd.Start())
	t.Cleanup(func() {
		check(t, cmd.Process.Signal(os.Interrupt)) // its worker ends with it
		_ = cmd.Wait()                             // a signal ends it
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) { // it tells nobody when it is ready
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return addr, roots
		}
		if time.Now().After(end) {
			t.Fatalf("nginx does not listen: %v: %s", err, stderr.String())
		}
	}
}
