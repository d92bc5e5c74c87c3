package commands

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/account"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mesh"
)

const (
	useAnyway       = "use it anyway? [y/N]"
	passwordNote    = "(not shown; leave empty to add it later)"
	passwordAgain   = "again (not shown; leave empty to change the username)"
	newPasswordNote = "(not shown; leave empty to keep the old one)"
)

// mailHosts are a real Dovecot and an SMTP server that have one user with one password.
type mailHosts struct {
	imap           *mailtest.Dovecot
	smtp           *mailtest.Servers
	bundle         string // the CAs of both
	closed, silent string // a port without a listener, and a server without answers
}

func startMailHosts(t *testing.T) mailHosts {
	t.Helper()
	h := mailHosts{imap: mailtest.StartDovecot(t)}
	h.smtp = mailtest.StartMemory(t, mailtest.Options{Username: h.imap.Username, Password: h.imap.Password})
	h.bundle = writeFile(t, filepath.Join(t.TempDir(), "ca.pem"), readFile(t, h.imap.CAFile)+readFile(t, h.smtp.CAFile))
	h.closed = mailtest.StartNobody(t)
	h.silent, _ = startSilentServer(t)
	return h
}

// TestInitTestsEachAnswer types wrong hosts, ports, names and passwords. Init tries each of them and
// asks again. In the end the agent works.
func TestInitTestsEachAnswer(t *testing.T) {
	h := startMailHosts(t)
	d := startInit(t, t.TempDir(), "--runner", "none", "--ca-file", h.bundle)
	d.answer("the one you write from", "operator@example.com")
	d.answer("the agent's own email address", "Operator@example.com")
	d.waitFor("is your own address")
	d.answer("the agent's own email address", "agent@example.org")
	d.answer("[agent]", "")
	d.answer("[generic]", "")
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
		d.answer("the IMAP server [imap.example.org]", wrong.host)
		d.waitFor("  trying "+wrong.host, " …\n", wrong.reason, wrong.hint)
		d.answer(useAnyway, "")
	}
	d.answer("the IMAP server [imap.example.org]", h.imap.IMAPTLS)
	d.waitFor("trying " + h.imap.IMAPTLS + " …\n")
	d.answer("the SMTP server", h.imap.IMAPTLS)
	d.waitFor("does not speak SMTP", "the usual ports are")
	d.answer(useAnyway, "n")
	d.answer("the SMTP server", h.smtp.SMTPTLS)

	d.answer("the password for agent@example.org "+passwordNote, "let-me-in-please")
	d.waitFor("trying to log in to "+h.imap.IMAPTLS+" as agent@example.org …\n", "  the server refused the login: NO [AUTHENTICATIONFAILED]", "hint: some servers expect a username")
	d.answer(useAnyway, "")
	d.answer("the password for agent@example.org "+passwordAgain, "let-me-in-2")
	d.waitFor("as agent@example.org …\n", "the server refused the login")
	d.answer(useAnyway, "")
	d.answer("the password for agent@example.org "+passwordAgain, "")
	d.answer("the username on the server [agent@example.org]", "let-me-in-2") // not a name; it goes nowhere
	d.waitFor("that is the password you just typed")
	d.answer("the username on the server [agent@example.org]", h.imap.Username)
	d.answer("the password for "+h.imap.Username+" "+passwordNote, "let-me-in-please")
	d.waitFor("the server refused the login")
	d.answer(useAnyway, "")
	d.answer("the password for "+h.imap.Username+" "+passwordAgain, h.imap.Password)
	d.waitFor("to log in to "+h.imap.IMAPTLS, "to log in to "+h.smtp.SMTPTLS)
	d.waitForExit(exitDone)
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

// TestInitKeepsFailingSettings checks that init writes servers that do not work if the person wants
// them: one with an untrusted certificate, one that refuses connections, and no mesh.
func TestInitKeepsFailingSettings(t *testing.T) {
	h := startMailHosts(t)
	d := startInit(t, t.TempDir(), "--runner", "none", "--operator", "operator@example.com", "--address", "agent@example.org",
		"--handle", "agent", "--imap-host", h.imap.IMAPTLS, "--mesh-url", "http://"+h.closed)
	d.waitFor("trying "+h.imap.IMAPTLS, "tls: failed to verify certificate: x509: certificate signed by unknown authority", "hint: if it is your own server, pass its CA certificate with --ca-file FILE")
	d.answer(useAnyway, "yes")
	d.answer("the SMTP server", h.closed)
	d.waitFor("connect: connection refused")
	d.answer(useAnyway, "y")
	d.answer(passwordNote, "hunter2-and-more")
	d.waitFor("unknown authority")
	d.answer(useAnyway, "Y")
	d.waitFor("trying http://"+h.closed+" …\n", "connection refused", "mesh serve` starts one")
	d.answer(useAnyway, "y")
	d.waitForExit(exitDone)
	if text := readFile(t, d.config()); !strings.Contains(text, h.imap.IMAPTLS) || strings.Count(text, h.closed) != 2 {
		t.Errorf("the servers are not in\n%s", text)
	}
}

// TestInitTestsMesh checks that init asks again for the token of a mesh that refuses it.
func TestInitTestsMesh(t *testing.T) {
	server := httptest.NewServer(mesh.NewServer(mesh.Options{Tokens: map[string]string{"agent": "right-token-0123"}}))
	defer server.Close()
	dir := t.TempDir()
	token := func(name, text string) string { return writeFile(t, filepath.Join(dir, name), text+"\n") }
	d := startInit(t, dir, "--preset", "none", "--runner", "none", "--handle", "agent", "--mesh-url", server.URL, "--mesh-token-file", token("wrong", "wrong-token-0123"))
	d.waitFor("trying "+server.URL, "answered 40", "hint: the token in "+filepath.Join(dir, "wrong")+" must match")
	d.answer(useAnyway, "")
	d.answer("the file with the agent's token for the mesh ["+filepath.Join(dir, "wrong")+"]", token("right", "right-token-0123"))
	d.waitForExit(exitDone)
	if text := readFile(t, d.config()); !strings.Contains(text, `token_file = "~/right"`) {
		t.Errorf("the token is not in\n%s", text)
	}
}

// TestInitFindsProgram checks that init explains why a program cannot run, and asks again.
func TestInitFindsProgram(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "plain"), "#!/bin/sh\n")
	writeScript(t, filepath.Join(dir, "runs"), "")
	writeScript(t, filepath.Join(dir, "bin/gemini"), "")
	d := startInit(t, dir, "--preset", "none", "--handle", "agent", "--no-network", "--sandbox", "none")
	d.answer("[gemini]", "codex")
	d.waitFor("codex is not in the agent's PATH (" + dir + "/bin:/usr/bin:/bin")
	d.answer(useAnyway, "")
	d.answer("[gemini]", "exec")
	for _, wrong := range []struct{ program, reason string }{
		{"no-such-program --flag", "no-such-program is not in the agent's PATH"},
		{dir + "/missing", "/missing does not exist"}, {dir + "/bin", "is a folder, not a program"},
		{"~/plain", "/plain is not executable\n  hint: chmod +x " + dir + "/plain"},
	} {
		d.answer("prints the answer", wrong.program)
		d.waitFor(wrong.reason)
		d.answer(useAnyway, "no")
	}
	d.answer("prints the answer", "~/runs --quiet")
	d.waitForExit(exitDone)
	if text := readFile(t, d.config()); !strings.Contains(text, `command = ["`+dir+`/runs", "--quiet"]`) {
		t.Errorf("the program is not in\n%s", text)
	}
}

// TestInitReplacesPassword checks that init replaces the password of an existing agent only if the
// new one works, or the person wants it.
func TestInitReplacesPassword(t *testing.T) {
	h := startMailHosts(t)
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(dir, "agent.password"), "old-password-0123\n")
	wantPassword := func(when, want string) {
		t.Helper()
		if got := readFile(t, file); got != want+"\n" {
			t.Errorf("%s the password is %q, want %q", when, got, want)
		}
	}
	d := startInit(t, dir, "--no-network", "--preset", "generic", "--runner", "none", "--operator", "operator@example.com", "--address", "agent@example.org",
		"--username", h.imap.Username, "--handle", "agent", "--imap-host", h.imap.IMAPTLS, "--smtp-host", h.smtp.SMTPTLS, "--ca-file", h.bundle)
	d.waitForExit(exitDone)

	// An empty line keeps the old password.
	d = startInit(t, dir)
	d.answer("already exists; set a new password for agent@example.org? [y/N]", "")
	d.waitForExit(exitDone)
	wantPassword("after an empty line", "old-password-0123")

	// A wrong password does not replace it, and neither does an empty one.
	d = startInit(t, dir, "--password")
	d.answer("the new password for "+h.imap.Username+" "+newPasswordNote, "wrong-password-0123")
	d.waitFor("the server refused the login: NO")
	wantPassword("before the new one worked", "old-password-0123")
	d.answer("replace the old password anyway? [y/N]", "")
	d.answer(newPasswordNote, "")
	d.waitForExit(exitDone)
	wantPassword("after an empty password", "old-password-0123")

	// The right password does, and the mode of its file becomes 0600.
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	d = startInit(t, dir)
	d.answer("set a new password for agent@example.org? [y/N]", "y")
	d.answer(newPasswordNote, h.imap.Password)
	d.waitFor("to log in to "+h.imap.IMAPTLS, "to log in to "+h.smtp.SMTPTLS)
	d.waitForExit(exitDone)
	wantPassword("after the right one", h.imap.Password)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the password file is %v, %v", info.Mode(), err)
	}
	if !strings.Contains(d.printed.String(), "wrote the new password to "+file+" (mode 0600)\n") || strings.Contains(d.printed.String(), h.imap.Password) {
		t.Errorf("it printed %s", &d.printed)
	}

	// A password that does not work is saved if the person wants it.
	d = startInit(t, dir, "--password")
	d.answer(newPasswordNote, "future-password-0123")
	d.answer("replace the old password anyway? [y/N]", "y")
	d.waitForExit(exitDone)
	wantPassword("after a yes", "future-password-0123")
}

// TestInitPasswordFromStdin checks that init reads the new password from standard input.
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
			writeFiles(t, dir, map[string]string{
				"p": "old\n", "agent.toml": "[agent]\nhandle = \"agent\"\noperator = [\"o@example.com\"]\nstate_dir = \"state\"\n[turn]\nrunner = \"none\"\n[schedule]\nmode = \"none\"\n" +
					"[trust]\nverify = \"dkim\"\n[mail]\naddress = \"agent@example.org\"\n[mail.smtp]\nhost = \"" + h.smtp.SMTPTLS + "\"\nca_file = \"" + h.bundle +
					"\"\n[mail.imap]\nhost = \"" + h.imap.IMAPTLS + "\"\nca_file = \"" + h.bundle + "\"\nusername = \"" + h.imap.Username + "\"\n" + c.secret + "\n",
			})
			p := testProgram()
			p.stdin, p.proc = strings.NewReader(c.password+"\n"), "/proc"
			p.loader.Account = func() (account.Account, error) { return account.Account{Home: dir, Known: true}, nil }
			code, output := runInProcess(t, p, append([]string{"init", "--config", filepath.Join(dir, "agent.toml")}, c.flags...)...)
			if code != c.code || !strings.Contains(output, c.problem) {
				t.Errorf("exit %d, want %d and %q: %s", code, c.code, c.problem, output)
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
