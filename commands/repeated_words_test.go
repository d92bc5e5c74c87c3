package commands

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mesh"
)

// TestErrorsRepeatNoWords polls and examines agents whose servers, secrets and files fail
// in many ways. No line of the output may have the same three words twice.
func TestErrorsRepeatNoWords(t *testing.T) {
	m := mailtest.StartMemory(t, mailtest.Options{Username: "agent@example.org"})
	refuses := httptest.NewServer(mesh.NewServer(mesh.Options{Tokens: map[string]string{"g1": "another-token-0123"}}))
	t.Cleanup(refuses.Close)
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	closed := mailtest.StartNobody(t)
	good := fmt.Sprintf("host = %q\nca_file = %q\n", m.IMAPTLS, m.CAFile)
	goodSMTP := fmt.Sprintf("host = %q\nca_file = %q\n", m.SMTPTLS, m.CAFile)
	file := "password_file = \"secret\"\n"
	for name, c := range map[string]struct{ imap, smtp, secret, mesh, hint string }{
		"the password is wrong":      {good + file, goodSMTP, "wrong-password-0123", "", "correct the password in "},
		"the password is missing":    {good + "password_file = \"nowhere\"\n", goodSMTP, "", "", "umask 077"},
		"the password is two lines":  {good + file, goodSMTP, "one\ntwo", "", ""},
		"the command fails":          {good + "password_command = [\"/bin/false\"]\n", goodSMTP, "", "", ""},
		"the command is wrong":       {good + "password_command = [\"/bin/echo\", \"wrong-password-0123\"]\n", goodSMTP, "", "", "correct the password that /bin/echo prints"},
		"the command is missing":     {good + "password_command = [\"/bin/no-such\"]\n", goodSMTP, "", "", ""},
		"connection refused":         {"host = \"" + closed + "\"\n" + file, "host = \"" + closed + "\"\n", "x", "", "check host and tls"},
		"unknown host":               {"host = \"imap.nowhere.invalid:993\"\n" + file, "host = \"smtp.nowhere.invalid:465\"\n", "x", "", ""},
		"untrusted certificate":      {"host = \"" + m.IMAPTLS + "\"\n" + file, "host = \"" + m.SMTPTLS + "\"\n", "x", "", "check host and tls"},
		"no TLS":                     {"host = \"" + m.IMAP + "\"\n" + file, "host = \"" + m.SMTP + "\"\n", "x", "", ""},
		"servers swapped":            {"host = \"" + m.SMTP + "\"\ntls = \"none\"\n" + file, "host = \"" + m.IMAP + "\"\ntls = \"none\"\n", "x", "", ""},
		"the authority is missing":   {"host = \"" + m.IMAPTLS + "\"\nca_file = \"nowhere.pem\"\n" + file, "host = \"" + m.SMTPTLS + "\"\nca_file = \"nowhere.pem\"\n", "x", "", ""},
		"the mesh refuses the token": {good + file, goodSMTP, m.Password, refuses.URL, "the token in "},
		"the mesh is another server": {good + file, goodSMTP, m.Password, page.URL, ""},
		"no mesh":                    {good + file, goodSMTP, m.Password, "http://" + closed, "mesh serve"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := "[agent]\nhandle = \"g1\"\noperator = [\"operator@example.com\"]\nstate_dir = \"state\"\n[turn]\ncommand = [\"/bin/cat\"]\n[schedule]\nmode = \"none\"\n" +
				"[trust]\nverify = \"dkim\"\n[mail]\naddress = \"agent@example.org\"\n[mail.imap]\n" + c.imap + "[mail.smtp]\n" + c.smtp
			if c.mesh != "" {
				text += "[mesh]\nurl = \"" + c.mesh + "\"\ntoken_file = \"token\"\n"
			}
			writeFiles(t, dir, map[string]string{"agent.toml": text, "secret": c.secret + "\n", "token": "wrong-token-0123\n"})
			var all strings.Builder
			for _, args := range [][]string{{"poll"}, {"nudge", "--no-poll"}, {"poll"}, {"doctor"}, {"status"}, {"doctor", "--fix", "--no-network"}, {"outbox", "list"}} {
				p := testProgram()
				p.loader.Environ = []string{"PATH=/usr/bin:/bin"}
				p.proc = "/proc"
				_, out := runInProcess(t, p, append([]string{"--config", filepath.Join(dir, "agent.toml")}, args...)...)
				for line := range strings.Lines(out) {
					if again := mailtest.Repeated(line); again != "" {
						t.Errorf("%q repeats %q: %s", args, again, line)
					}
				}
				all.WriteString(out)
			}
			all.WriteString(readFile(t, filepath.Join(dir, "state/log")))
			if !strings.Contains(all.String(), c.hint) {
				t.Errorf("no line has %q:\n%s", c.hint, all.String())
			}
			if strings.Contains(all.String(), "app password") {
				t.Errorf("a hint for a provider:\n%s", all.String())
			}
		})
	}
}
