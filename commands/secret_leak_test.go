package commands

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-smtp"

	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
)

// canarySecrets returns the secrets of TestNoSecretLeaks by file name. No other file has these
// texts.
func canarySecrets() map[string]string {
	return map[string]string{
		"imap":      `imap "canary\ 3f/+%9&`,
		"imap-late": `imap-late-canary-77a1`,
		"smtp":      `smtp$canary'<4d>&10`,
		"goulard":   "mesh-canary-goulard-58c3",
		"dorlange":  "mesh-canary-dorlange-90b2",
		"stranger":  "mesh-canary-stranger-1e4f",
		"client":    "client-canary-6b7d",
		"refresh":   "refresh-canary-2a9c",
		"access":    "access-canary-c05e",
		"api":       "sk-canary-api-8842",
		"webhook":   "webhook-canary-d71b",
		"beat":      "Beat-Canary-0f6a",
	}
}

// leakStory is an agent with these secrets, and the servers it uses, in one folder.
type leakStory struct {
	t      *testing.T
	dir    string
	secret map[string]string
	mail   *mailtest.Servers
	tokens *mailtest.Tokens
	mesh   string   // the URL of the real mesh
	ends   []func() // each crashes a daemon and waits for its end

	mu       sync.Mutex
	recorded map[string]string // the output of processes, the answers of servers, mails and files
	n        int
}

// TestNoSecretLeaks runs an agent whose counterparts all repeat the secrets they
// receive. Mail servers repeat the password when they refuse a login, and when they
// fail after it. The token server and the mesh repeat tokens. The agent prints its
// key. Processes crash. Afterwards no secret, however encoded, is in any file,
// output, mail or argument list.
func TestNoSecretLeaks(t *testing.T) {
	t.Parallel()
	l := newLeakStory(t)
	l.withPasswords()
	l.withTokens()
	l.withTheMesh()
	l.withAListener()
	l.searchForSecrets()
}

func newLeakStory(t *testing.T) *leakStory {
	t.Helper()
	l := &leakStory{t: t, dir: tempDir(t), secret: canarySecrets(), recorded: map[string]string{}}
	l.write("secrets/here", "")
	for name, value := range l.secret {
		l.write("secrets/"+name, value+"\n")
	}
	monitor := newMonitor() // it repeats the path of each request
	t.Cleanup(monitor.Close)
	monitor.setCode(http.StatusInternalServerError)
	l.write("secrets/beat", monitor.URL+"/push/"+l.secret["beat"]+"\n")
	refusal := func(words ...string) string { return "you said " + strings.Join(words, " ") }
	l.mail = mailtest.StartMemory(t, mailtest.Options{
		Username: "goulard@example.org", Password: l.secret["imap"], Echo: true,
		OnFetch: func(net.Conn, imap.NumSet, *imap.FetchOptions) error {
			if _, err := os.Stat(filepath.Join(l.dir, "fetch-fails")); err != nil {
				return nil
			}
			return &imap.Error{Type: imap.StatusResponseTypeNo, Text: refusal(l.secret["imap"], fmt.Sprintf("%q", l.secret["imap"]))}
		},
		OnRcpt: func(string) error {
			if _, err := os.Stat(filepath.Join(l.dir, "rcpt-fails")); err != nil {
				return nil
			}
			return &smtp.SMTPError{Code: 451, Message: refusal(secret.Disguises(l.secret["smtp"])...)}
		},
	})
	l.tokens = mailtest.StartTokens(t, l.secret["refresh"], l.secret["access"])
	l.tokens.Secret, l.tokens.Rotate, l.tokens.OnToken = l.secret["client"], true, l.mail.SetToken
	// These scripts record the arguments and the environment of child processes.
	l.writeScript("ask.sh", "cat \"$(dirname \"$0\")/secrets/$1\"\n")
	l.writeScript("agent.sh", `cat >/dev/null
env | grep -v '^API_KEY=' >>"$LIFE/agent-environment"
printf 'my key is %s' "$API_KEY"; printf '%s' "$API_KEY" | base64 >&2
if [ -e "$LIFE/agent-fails" ]; then echo "invalid api key $API_KEY" >&2; exit 1; fi
`)
	if _, _, err := crontest.Write(l.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(l.dir, "crontab"), filepath.Join(l.dir, "table")); err != nil {
		t.Fatal(err)
	}
	l.writeScript("crontab", "if [ -e \"$LIFE/crontab-fails\" ]; then echo \"cannot: $SMTP_PASSWORD\" >&2; exit 1; fi\nexec \"$(dirname \"$0\")/table\" \"$@\"\n")
	return l
}

func (l *leakStory) write(name, text string) {
	l.t.Helper()
	writeFile(l.t, filepath.Join(l.dir, name), text)
}

// writeScript writes a shell script that first records the argument lists of all
// processes.
func (l *leakStory) writeScript(name, text string) {
	l.t.Helper()
	record := fmt.Sprintf("LIFE=%q\necho \"$0 $*\" >>\"$LIFE/arguments\"\nps -A -o args >>\"$LIFE/arguments\" 2>/dev/null\n", l.dir)
	writeScript(l.t, filepath.Join(l.dir, name), record+text)
}

// writeAgent writes name/agent.toml with these IMAP and SMTP settings and this mesh
// URL.
func (l *leakStory) writeAgent(name, handle, imap, smtp, mesh string) {
	l.write(name+"/agent.toml", fmt.Sprintf(`[agent]
handle = %q
operator = ["operator@example.com"]
state_dir = "state"
[mail]
address = "goulard@example.org"
[mail.imap]
host = %q
ca_file = %q
username = "goulard@example.org"
%s
[mail.smtp]
host = %q
ca_file = %[3]q
%[6]s
[trust]
require = "from"
[mesh]
url = %[7]q
token_command = ["../ask.sh", "goulard"]
peers = ["dorlange3120"]
keymaster = "dorlange3120"
[turn]
command = ["../agent.sh"]
env = { API_KEY = %[8]q, TEST_HOME = %[9]q, TEST_RUNNING = %[10]q, GORACE = "atexit_sleep_ms=0" }
[schedule]
crontab = "../crontab"
heartbeat_command = ["../ask.sh", "beat"]
`, handle, l.mail.IMAPTLS, l.mail.CAFile, imap, l.mail.SMTPTLS, smtp, mesh, l.secret["api"], l.dir+"/home", l.dir+"/running"))
}

// command returns a command whose processes share this lock.
func (l *leakStory) command(lock string, args ...string) *exec.Cmd {
	l.t.Helper()
	l.write(lock, "")
	cmd := exec.Command(name, args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "TEST_HOME="+l.dir+"/home", "TEST_RUNNING="+filepath.Join(l.dir, lock),
		"SMTP_PASSWORD="+l.secret["smtp"], "CLIENT_SECRET="+l.secret["client"], "GORACE=atexit_sleep_ms=0")
	return cmd
}

// run runs the program, waits for polls that it left in the background, and
// returns its output. It reports an exit code other than want.
func (l *leakStory) run(want int, args ...string) string {
	l.t.Helper()
	cmd := l.command("running", args...)
	output, err := cmd.CombinedOutput()
	if err := settle(filepath.Join(l.dir, "running")); err != nil {
		l.t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() != want {
		l.t.Errorf("%q: %v, want exit code %d\n%s", args, err, want, output)
	}
	l.record(strings.Join(args, " "), string(output))
	return string(output)
}

// record saves a text for searchForSecrets.
func (l *leakStory) record(title, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	l.recorded[fmt.Sprintf("%d: %s", l.n, title)] = text
}

// runReadOnlyCommands runs the commands that only read.
func (l *leakStory) runReadOnlyCommands(config string) {
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"history", "-n", "0", "--json"}, {"history"}, {"inbox", "list", "--json"}} {
		l.run(0, append([]string{"--config", config}, args...)...)
	}
	l.run(1, "--config", config, "doctor")
	l.run(1, "--config", config, "doctor", "--json")
}

// wantContains checks that an output contains a part. Otherwise the run did not take the
// path on which the secret could leak.
func (l *leakStory) wantContains(output, part string) {
	l.t.Helper()
	if !strings.Contains(output, part) {
		l.t.Errorf("want %q in\n%s", part, output)
	}
}

func (l *leakStory) withPasswords() {
	const config = "plain/agent.toml"
	l.writeAgent("plain", "goulard3120", `password_file = "../secrets/imap"`, `password_env = "SMTP_PASSWORD"`, "http://127.0.0.1:1")
	l.run(3, "--config", config, "poll") // the baseline; the mesh cannot be reached
	l.write("rcpt-fails", "")
	deliverMail(l.t, l.mail, "one")
	l.run(3, "--config", config, "poll") // the server still takes the IMAP password only
	l.mail.SetPassword(l.secret["smtp"])
	l.wantContains(l.run(3, "--config", config, "poll"), "imap")
	l.wantContains(l.run(3, "--config", config, "poll", "--json"), "***")
	l.run(3, "--config", config, "poll", "--dry-run", "--json")
	l.mail.SetPassword(l.secret["imap"])
	deliverMail(l.t, l.mail, "two")
	l.write("fetch-fails", "")
	l.run(3, "--config", config, "poll")
	l.run(3, "--config", config, "poll", "--dry-run")
	l.remove("fetch-fails", "rcpt-fails")
	l.write("agent-fails", "")
	l.run(3, "--config", config, "poll")
	l.remove("agent-fails")
	l.run(0, "--config", config, "tell", "hello")
	l.write("crontab-fails", "")
	l.run(0, "--config", config, "transition", "IDLE", "--no-poll")
	l.run(3, "--config", config, "poll")
	l.wantContains(l.run(0, "--config", config, "status"), "***")
	l.run(3, "--config", config, "poll", "--dry-run")
	l.remove("crontab-fails")
	// The program refuses a file that others can read.
	if err := os.Chmod(filepath.Join(l.dir, "secrets/imap"), 0o644); err != nil {
		l.t.Fatal(err)
	}
	l.wantContains(l.run(3, "--config", config, "poll"), "is readable by others")
	l.runReadOnlyCommands(config)
	l.wantContains(l.run(0, "--config", config, "history", "-n", "0", "--json"), "***")
}

func (l *leakStory) remove(names ...string) {
	for _, name := range names {
		if err := os.Remove(filepath.Join(l.dir, name)); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *leakStory) withTokens() {
	const config = "oauth/agent.toml"
	login := fmt.Sprintf("auth = \"xoauth2\"\n[mail.imap.oauth2]\nclient_id = \"client\"\nclient_secret_env = \"CLIENT_SECRET\"\nrefresh_token_file = \"../secrets/refresh\"\ntoken_url = %q\nca_file = %q\n", l.tokens.URL, l.tokens.CAFile)
	l.writeAgent("oauth", "goulard3120", login, "", "http://127.0.0.1:1")
	l.run(3, "--config", config, "poll")
	deliverMail(l.t, l.mail, "three")
	l.run(3, "--config", config, "poll")
	if n := len(l.mail.Sent()); n < 2 {
		l.t.Errorf("%d mails sent, want 2 or more", n)
	}
	// The mail server refuses the access token, and repeats it.
	l.tokens.Lock()
	l.tokens.OnToken = nil
	l.tokens.Unlock()
	l.mail.SetToken("another")
	l.wantContains(l.run(3, "--config", config, "poll"), "***")
	// The token server refuses the refresh token.
	l.tokens.Lock()
	l.tokens.Refresh = "another"
	l.tokens.Unlock()
	if err := os.RemoveAll(filepath.Join(l.dir, "home/.local/state/agentstateloop/oauth.d")); err != nil {
		l.t.Fatal(err)
	}
	l.wantContains(l.run(3, "--config", config, "poll"), "invalid_grant not ***")
	l.tokens.Lock()
	l.tokens.Secret = "another"
	l.tokens.Unlock()
	l.wantContains(l.run(3, "--config", config, "poll"), "invalid_client not ***")
	l.runReadOnlyCommands(config)
}

func (l *leakStory) withTheMesh() {
	l.write("secrets/tokens", "goulard3120 "+l.secret["goulard"]+"\ndorlange3120 "+l.secret["dorlange"]+"\n")
	url := l.startDaemon("mesh at ", "mesh", "serve", "--addr", "127.0.0.1:0", "--dir", "mesh.d", "--tokens", "secrets/tokens")
	// This mesh repeats the token in its answer.
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":"not %s"}`, r.Header.Get("Authorization"))
	}))
	defer echo.Close()
	const config = "plain/agent.toml"
	mail := `password_command = ["../ask.sh", "imap"]`
	l.writeAgent("plain", "goulard3120", mail, "", echo.URL)
	l.wantContains(l.run(3, "--config", config, "poll"), "our token")
	l.run(1, "--config", config, "mesh", "send", "dorlange3120", "hello")
	// A mesh takes five messages a minute, and the poll has that many notices of outages.
	other := l.startDaemon("mesh at ", "mesh", "serve", "--addr", "127.0.0.1:0", "--dir", "other-mesh.d", "--tokens", "secrets/tokens")
	l.writeAgent("plain", "goulard3120", mail, "", other)
	l.run(0, "--config", config, "mesh", "send", "dorlange3120", "hello")
	l.writeAgent("plain", "goulard3120", mail, "", url)
	l.run(0, "--config", config, "poll")
	l.run(0, "--config", config, "mesh", "inbox", "--json")
	l.run(0, "--config", config, "status", "--all")
	// Only a caller with a known token may halt and resume the mesh.
	l.run(0, "--config", config, "mesh", "halt")
	l.write("secrets/goulard", l.secret["stranger"])
	l.wantContains(l.run(1, "--config", config, "mesh", "resume"), "401")
	l.write("secrets/goulard", l.secret["goulard"])
	l.run(0, "--config", config, "mesh", "resume")
	l.post(url+"/message", "dorlange", `{"to":"goulard3120","message":"x"}`, 202)
	l.post(url+"/message", "stranger", `{"to":"dorlange3120","message":"x"}`, 401)
	l.mesh = url
}

// withAListener starts a listener that holds its secrets in memory until
// searchForSecrets crashes it.
func (l *leakStory) withAListener() {
	l.writeAgent("plain", "goulard3120", `password_command = ["../ask.sh", "imap"]`, "", l.mesh)
	addr := l.startDaemon("listening for 1 agent at ", "--config", "plain/agent.toml", "listen", "--token-file", "secrets/webhook")
	l.post(addr+"/nudge", "stranger", "", 401)
	l.post(addr+"/nudge", "webhook", `{"from":"test"}`, 202)
	deliverMail(l.t, l.mail, "four")
}

// startDaemon starts a command that searchForSecrets crashes, and returns the
// address that it prints after prefix.
func (l *leakStory) startDaemon(prefix string, args ...string) string {
	l.t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := l.command("daemons", args...)
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	write.Close()
	first := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var all []byte
		buf := make([]byte, 64<<10)
		for {
			n, err := read.Read(buf)
			all = append(all, buf[:n]...)
			if _, rest, ok := strings.Cut(string(all), prefix); ok && strings.Contains(rest, "\n") {
				select {
				case first <- strings.SplitN(rest, "\n", 2)[0]:
				default:
				}
			}
			if err != nil {
				l.record(strings.Join(args, " "), string(all))
				close(first)
				return
			}
		}
	}()
	l.t.Cleanup(func() { cmd.Process.Kill() })
	address := <-first
	if address == "" {
		l.t.Fatalf("%q printed no address: %v", args, l.recorded)
	}
	l.ends = append(l.ends, func() {
		cmd.Process.Signal(syscall.SIGQUIT) // a crash report of every goroutine
		cmd.Wait()
		<-ended
	})
	return address
}

func (l *leakStory) post(url, secret, body string, want int) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.secret[secret])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer bytes.Buffer
	answer.ReadFrom(resp.Body)
	l.record(url, answer.String())
	if resp.StatusCode != want {
		l.t.Errorf("%s answers %s, want %d: %s", url, resp.Status, want, &answer)
	}
}

// searchForSecrets crashes the daemons. It then looks for each secret, in each
// encoding, in everything recorded, every mail and every file.
func (l *leakStory) searchForSecrets() {
	for _, end := range l.ends {
		end()
	}
	if err := settle(filepath.Join(l.dir, "daemons")); err != nil {
		l.t.Fatal(err)
	}
	for i, m := range l.mail.Sent() {
		l.recorded[fmt.Sprintf("mail %d to %v", i, m.To)] = string(m.Raw)
	}
	files := 0
	err := filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(l.dir, path)
		switch {
		case err != nil:
			return err
		case rel == "secrets" || rel == "home/.local/state/agentstateloop/oauth.d":
			return fs.SkipDir
		case !d.Type().IsRegular() || strings.HasSuffix(rel, "agent.toml"): // it holds the API key
			return nil
		}
		data, err := os.ReadFile(path)
		l.recorded["file "+rel] = string(data)
		files++
		return err
	})
	if err != nil || files < 20 {
		l.t.Fatalf("%d files, want 20 or more: %v", files, err)
	}
	crashes := 0
	for where, text := range l.recorded {
		if strings.Contains(text, "SIGQUIT: quit") {
			crashes++
		}
		for called, value := range l.secret {
			for _, form := range secret.Disguises(value) {
				if i := strings.Index(text, form); i >= 0 {
					l.t.Errorf("%s: contains the secret %q as %q: …%q", where, called, form, text[max(0, i-80):min(len(text), i+len(form)+40)])
					break
				}
			}
		}
	}
	if crashes != 3 {
		l.t.Errorf("%d crash reports, want 3", crashes)
	}
	l.t.Logf("searched %d texts, %d of them files, for %d secrets", len(l.recorded), files, len(l.secret))
}
