package commands

import (
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mesh"
)

// startInitOnline is startInit with the network.
func startInitOnline(t *testing.T, dir string, flags ...string) *initDialogue {
	t.Helper()
	d := &initDialogue{t: t, dir: dir, done: make(chan int, 1)}
	d.person, d.tty = openTerminal(t)
	command, _, err := crontest.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	d.listen(func(ctx context.Context, stderr io.Writer) int {
		p := program{
			stdin: d.tty, out: terminal.Output{Stdout: &d.printed, Stderr: stderr}, proc: "/proc",
			loader: &config.Loader{
				Environ:    []string{"PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin"},
				Account:    func() (account.Account, error) { return account.Account{Home: dir, Known: true}, nil },
				Executable: func() (string, error) { return "/usr/bin/" + name, nil },
				Now:        time.Now,
				Secrets:    new(secret.Known),
			},
		}
		return p.run(ctx, append([]string{name, "init", "--config", d.config()}, append(flags, "--crontab", command)...))
	})
	return d
}

// says waits until init has printed all of these texts, one after another.
func (d *initDialogue) says(texts ...string) {
	d.t.Helper()
	for _, text := range texts {
		var output strings.Builder
		for !strings.HasSuffix(output.String(), text) {
			b, err := d.questions.ReadByte()
			if err != nil {
				d.t.Fatalf("instead of %q: %q, %v", text, output.String(), err)
			}
			output.WriteByte(b)
		}
		d.transcript.WriteString(output.String())
	}
}

// types waits for a question that ends so, and types the answer.
func (d *initDialogue) types(question, answer string) {
	d.t.Helper()
	d.says(question + ": ")
	if strings.Contains(question, "not shown") {
		d.waitForEchoOff()
	}
	if _, err := io.WriteString(d.person, answer+"\n"); err != nil {
		d.t.Fatal(err)
	}
	d.transcript.WriteString("\n") // which the terminal shows
}

// ends waits until init ends, and returns all that it said since the last answer.
func (d *initDialogue) ends(code int) string {
	d.t.Helper()
	rest, _ := io.ReadAll(d.questions)
	d.transcript.Write(rest)
	if got := <-d.done; got != code {
		d.t.Fatalf("init exits %d, want %d: %s\n%s", got, code, d.transcript.String(), d.printed.String())
	}
	for line := range strings.Lines(d.transcript.String()) {
		if again := mailtest.Repeated(line); again != "" {
			d.t.Errorf("%q is repeated in %q", again, line)
		}
	}
	return string(rest)
}

const (
	keep            = "use it anyway? [y/N]"
	passwordNote    = "(not shown; leave empty to add it later)"
	again           = "again (not shown; leave empty to change the username)"
	newPasswordNote = "(not shown; leave empty to keep the old one)"
)

// mailHosts are a real Dovecot and an SMTP server that have one user with one password.
type mailHosts struct {
	imap           *mailtest.Dovecot
	smtp           *mailtest.Servers
	bundle         string // the CAs of both
	closed, silent string // nobody listens; somebody says nothing
}

func startMailHosts(t *testing.T) mailHosts {
	t.Helper()
	h := mailHosts{imap: mailtest.StartDovecot(t)}
	h.smtp = mailtest.StartMemory(t, mailtest.Options{Username: h.imap.Username, Password: h.imap.Password})
	h.bundle = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(h.bundle, []byte(readFile(t, h.imap.CAFile)+readFile(t, h.smtp.CAFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	h.closed = mailtest.StartNobody(t)
	h.silent, _ = silent(t)
	return h
}

// TestInitTestsEachAnswer types wrong hosts, ports, names and passwords at init, which
// tries each and asks again. In the end the agent works.
func TestInitTestsEachAnswer(t *testing.T) {
	h := startMailHosts(t)
	d := startInitOnline(t, t.TempDir(), "--runner", "none", "--ca-file", h.bundle)
	d.types("the one you write from", "operator@example.com")
	d.types("the agent's own email address", "Operator@example.com")
	d.says("is your own address")
	d.types("the agent's own email address", "agent@example.org")
	d.types("[agent]", "")
	d.types("[generic]", "")
	for _, wrong := range []struct{ host, reason, hint string }{
		{"imap.nowhere.invalid", "connect: ", "hint: "},
		{h.closed, "connect: connection refused", "the usual ports are 993"},
		{h.imap.IMAP, "tls: first record does not look like a TLS handshake", "the usual ports are 993"},
		{h.smtp.SMTPTLS, "does not speak IMAP", "993"},
		{h.silent, "no answer within 8s", "firewall"},
	} {
		if wrong.host == h.silent && os.Getenv(requireReal) == "" {
			continue // it takes eight seconds
		}
		d.types("the IMAP server [imap.example.org]", wrong.host)
		d.says("  trying "+wrong.host, " …\n", wrong.reason, wrong.hint)
		d.types(keep, "")
	}
	d.types("the IMAP server [imap.example.org]", h.imap.IMAPTLS)
	d.says("trying " + h.imap.IMAPTLS + " …\n")
	d.types("the SMTP server", h.imap.IMAPTLS)
	d.says("does not speak SMTP", "the usual ports are")
	d.types(keep, "n")
	d.types("the SMTP server", h.smtp.SMTPTLS)

	d.types("the password for agent@example.org "+passwordNote, "let-me-in-please")
	d.says("trying to log in to "+h.imap.IMAPTLS+" as agent@example.org …\n", "  the server refused the login: NO [AUTHENTICATIONFAILED]", "hint: some servers expect a username")
	d.types(keep, "")
	d.types("the password for agent@example.org "+again, "let-me-in-2")
	d.says("as agent@example.org …\n", "the server refused the login")
	d.types(keep, "")
	d.types("the password for agent@example.org "+again, "")
	d.types("the username on the server [agent@example.org]", "let-me-in-2") // not a name; it goes nowhere
	d.says("that is the password you just typed")
	d.types("the username on the server [agent@example.org]", h.imap.Username)
	d.types("the password for "+h.imap.Username+" "+passwordNote, "let-me-in-please")
	d.says("the server refused the login")
	d.types(keep, "")
	d.types("the password for "+h.imap.Username+" "+again, h.imap.Password)
	d.says("to log in to "+h.imap.IMAPTLS, "to log in to "+h.smtp.SMTPTLS)
	d.ends(exitDone)
	for _, secret := range []string{"let-me-in", h.imap.Password} {
		if strings.Contains(d.transcript.String()+d.printed.String(), secret) {
			t.Errorf("init printed %s", secret)
		}
	}
	text := readFile(t, d.config())
	if !strings.Contains(text, "username = \""+h.imap.Username+"\" ") || strings.Count(text, "username") != 1 {
		t.Errorf("the username is not in\n%s", text)
	}
	if got := readFile(t, filepath.Join(d.dir, "agent.password")); got != h.imap.Password+"\n" {
		t.Errorf("the password file has %q", got)
	}
	if works := "checks are ok: config, secret.imap, imap, smtp,"; !strings.Contains(d.printed.String(), works) {
		t.Errorf("doctor does not say %q:\n%s", works, &d.printed)
	}
}

// TestInitKeepsFailingSettings keeps servers that are not known to work: one whose
// certificate nobody vouches for, one that hangs, and no mesh.
func TestInitKeepsFailingSettings(t *testing.T) {
	h := startMailHosts(t)
	d := startInitOnline(t, t.TempDir(), "--runner", "none", "--operator", "operator@example.com", "--address", "agent@example.org",
		"--handle", "agent", "--imap-host", h.imap.IMAPTLS, "--mesh-url", "http://"+h.closed)
	d.says("trying "+h.imap.IMAPTLS, "tls: failed to verify certificate: x509: certificate signed by unknown authority", "hint: if it is your own server, pass its CA certificate with --ca-file FILE")
	d.types(keep, "yes")
	d.types("the SMTP server", h.closed)
	d.says("connect: connection refused")
	d.types(keep, "y")
	d.types(passwordNote, "hunter2-and-more")
	d.says("unknown authority")
	d.types(keep, "Y")
	d.says("trying http://"+h.closed+" …\n", "connection refused", "mesh serve` starts one")
	d.types(keep, "y")
	d.ends(exitDone)
	if text := readFile(t, d.config()); !strings.Contains(text, h.imap.IMAPTLS) || strings.Count(text, h.closed) != 2 {
		t.Errorf("it is not kept:\n%s", text)
	}
}

// TestInitTestsMesh asks again for the token and the URL of a mesh.
func TestInitTestsMesh(t *testing.T) {
	server := httptest.NewServer(mesh.NewServer(mesh.Options{Tokens: map[string]string{"agent": "right-token-0123"}}))
	defer server.Close()
	dir := t.TempDir()
	token := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	d := startInitOnline(t, dir, "--preset", "none", "--runner", "none", "--handle", "agent", "--mesh-url", server.URL, "--mesh-token-file", token("wrong", "wrong-token-0123"))
	d.says("trying "+server.URL, "answered 40", "hint: the token in "+filepath.Join(dir, "wrong")+" must match")
	d.types(keep, "")
	d.types("the file with the agent's token for the mesh ["+filepath.Join(dir, "wrong")+"]", token("right", "right-token-0123"))
	d.ends(exitDone)
	if text := readFile(t, d.config()); !strings.Contains(text, `token_file = "~/right"`) {
		t.Errorf("the token is not in\n%s", text)
	}
}

// TestInitFindsProgram names programs that cannot run.
func TestInitFindsProgram(t *testing.T) {
	dir := t.TempDir()
	for file, mode := range map[string]os.FileMode{"plain": 0o600, "runs": 0o700, "bin/gemini": 0o700} {
		if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	d := startInitOnline(t, dir, "--preset", "none", "--handle", "agent", "--no-network", "--sandbox", "none")
	d.types("[gemini]", "codex")
	d.says("codex is not in the agent's PATH (" + dir + "/bin:/usr/bin:/bin")
	d.types(keep, "")
	d.types("[gemini]", "exec")
	for _, wrong := range []struct{ program, reason string }{
		{"no-such-program --flag", "no-such-program is not in the agent's PATH"},
		{dir + "/missing", "/missing does not exist"}, {dir + "/bin", "is a folder, not a program"},
		{"~/plain", "/plain is not executable\n  hint: chmod +x " + dir + "/plain"},
	} {
		d.types("prints the answer", wrong.program)
		d.says(wrong.reason)
		d.types(keep, "no")
	}
	d.types("prints the answer", "~/runs --quiet")
	d.ends(exitDone)
	if text := readFile(t, d.config()); !strings.Contains(text, `command = ["`+dir+`/runs", "--quiet"]`) {
		t.Errorf("the program is not in\n%s", text)
	}
}

// TestInitReplacesPassword replaces the password of an agent that exists, only once the
// new one works.
func TestInitReplacesPassword(t *testing.T) {
	h := startMailHosts(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old-password-0123\n")
	d := startInitOnline(t, dir, "--no-network", "--preset", "generic", "--runner", "none", "--operator", "operator@example.com", "--address", "agent@example.org",
		"--username", h.imap.Username, "--handle", "agent", "--imap-host", h.imap.IMAPTLS, "--smtp-host", h.smtp.SMTPTLS, "--ca-file", h.bundle)
	d.ends(exitDone)

	// It is offered, and declined by an empty line.
	d = startInitExisting(t, dir)
	d.types("already exists; set a new password for agent@example.org? [y/N]", "")
	d.ends(exitDone)
	if got := readFile(t, file); got != "old-password-0123\n" {
		t.Errorf("the password became %q", got)
	}

	// A wrong one does not replace it, and neither does an empty one.
	d = startInitExisting(t, dir, "--password")
	d.types("the new password for "+h.imap.Username+" "+newPasswordNote, "wrong-password-0123")
	d.says("the server refused the login: NO")
	if got := readFile(t, file); got != "old-password-0123\n" {
		t.Errorf("the password became %q before it worked", got)
	}
	d.types("replace the old password anyway? [y/N]", "")
	d.types(newPasswordNote, "")
	d.ends(exitDone)
	if got := readFile(t, file); got != "old-password-0123\n" {
		t.Errorf("the password became %q", got)
	}

	// The right one does, whatever mode the old file had.
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	d = startInitExisting(t, dir)
	d.types("set a new password for agent@example.org? [y/N]", "y")
	d.types(newPasswordNote, h.imap.Password)
	d.says("to log in to "+h.imap.IMAPTLS, "to log in to "+h.smtp.SMTPTLS)
	d.ends(exitDone)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || readFile(t, file) != h.imap.Password+"\n" {
		t.Errorf("%v, %v, %q", info.Mode(), err, readFile(t, file))
	}
	if !strings.Contains(d.printed.String(), "wrote the new password to "+file+" (mode 0600)\n") || strings.Contains(d.printed.String(), h.imap.Password) {
		t.Errorf("it printed %s", &d.printed)
	}

	// It is only kept untried if the person says so.
	d = startInitExisting(t, dir, "--password")
	d.types(newPasswordNote, "future-password-0123")
	d.types("replace the old password anyway? [y/N]", "y")
	d.ends(exitDone)
	if got := readFile(t, file); got != "future-password-0123\n" {
		t.Errorf("the password became %q", got)
	}
}

// startInitExisting runs init for a configuration that exists.
func startInitExisting(t *testing.T, dir string, flags ...string) *initDialogue {
	t.Helper()
	d := &initDialogue{t: t, dir: dir, done: make(chan int, 1)}
	d.person, d.tty = openTerminal(t)
	d.listen(func(ctx context.Context, stderr io.Writer) int {
		p := testProgram()
		p.stdin, p.out, p.proc = d.tty, terminal.Output{Stdout: &d.printed, Stderr: stderr}, "/proc"
		p.loader.Account = func() (account.Account, error) { return account.Account{Home: dir, Known: true}, nil }
		return p.run(ctx, append([]string{name, "init", "--config", d.config()}, flags...))
	})
	return d
}

// TestInitPasswordFromStdin takes the new password from standard input.
func TestInitPasswordFromStdin(t *testing.T) {
	h := startMailHosts(t)
	for name, c := range map[string]struct {
		secret, password string
		flags            []string
		code             int
		want, problem    string
	}{
		"it works":         {"password_file = \"p\"", h.imap.Password, []string{"--password", "--password-stdin"}, exitDone, h.imap.Password + "\n", ""},
		"alone":            {"password_file = \"p\"", h.imap.Password, []string{"--password-stdin"}, exitDone, h.imap.Password + "\n", ""},
		"it is wrong":      {"password_file = \"p\"", "wrong-password-0123", []string{"--password", "--password-stdin"}, exitError, "old\n", "the server refused the login: NO [AUTHENTICATIONFAILED] Authentication failed.: the old password was kept"},
		"it is not tried":  {"password_file = \"p\"", "wrong-password-0123", []string{"--password", "--password-stdin", "--no-network"}, exitDone, "wrong-password-0123\n", ""},
		"it is missing":    {"password_file = \"p\"", "", []string{"--password"}, exitUsage, "old\n", "--password-stdin is required"},
		"it is empty":      {"password_file = \"p\"", "", []string{"--password", "--password-stdin"}, exitUsage, "old\n", "stdin is empty"},
		"a command":        {"password_command = [\"pass\", \"x\"]", "x", []string{"--password", "--password-stdin"}, exitUsage, "old\n", "the password comes from pass"},
		"the environment":  {"password_env = \"PW\"", "x", []string{"--password", "--password-stdin"}, exitUsage, "old\n", "comes from the environment variable PW"},
		"a refresh token":  {"auth = \"xoauth2\"\n[mail.imap.oauth2]\nprovider = \"google\"\nclient_id = \"1\"\nrefresh_token_file = \"r\"", "x", []string{"--password", "--password-stdin"}, exitUsage, "old\n", "run `agentstateloop login`"},
		"another agent":    {"password_file = \"p\"", "x", []string{"--password", "--password-stdin", "--handle", "other"}, exitUsage, "old\n", "belongs to @agent"},
		"other flags, too": {"password_file = \"p\"", h.imap.Password, []string{"--password-stdin", "--operator", "o@example.com", "--no-network"}, exitDone, "old\n", "flags for settings were ignored"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"p": "old\n", "agent.toml": "[agent]\nhandle = \"agent\"\noperator = [\"o@example.com\"]\nstate_dir = \"state\"\n[turn]\nrunner = \"none\"\n[schedule]\nmode = \"none\"\n" +
					"[trust]\nverify = \"dkim\"\n[mail]\naddress = \"agent@example.org\"\n[mail.smtp]\nhost = \"" + h.smtp.SMTPTLS + "\"\nca_file = \"" + h.bundle +
					"\"\n[mail.imap]\nhost = \"" + h.imap.IMAPTLS + "\"\nca_file = \"" + h.bundle + "\"\nusername = \"" + h.imap.Username + "\"\n" + c.secret + "\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			p := testProgram()
			p.stdin, p.out.Stdout, p.out.Stderr, p.proc = strings.NewReader(c.password+"\n"), &out, &out, "/proc"
			p.loader.Account = func() (account.Account, error) { return account.Account{Home: dir, Known: true}, nil }
			code := p.run(t.Context(), append([]string{"agentstateloop", "init", "--config", filepath.Join(dir, "agent.toml")}, c.flags...))
			if code != c.code || !strings.Contains(out.String(), c.problem) {
				t.Errorf("exit %d, want %d and %q: %s", code, c.code, c.problem, &out)
			}
			if got := readFile(t, filepath.Join(dir, "p")); got != c.want {
				t.Errorf("the password is %q, want %q", got, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".init-*")); len(left) > 0 {
				t.Errorf("left over: %q", left)
			}
		})
	}
}
