package mailtest

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentstateloop/internal/testkit"
)

// Dovecot is a running Dovecot with one user. The ports are on loopback; the
// certificate is for "localhost" and 127.0.0.1.
type Dovecot struct {
	IMAP, IMAPTLS      string // IMAP supports STARTTLS
	CAFile             string
	Username, Password string
	Maildir            string

	dir   string
	users int
	mail  int // uid and gid of the mails
	n     int
}

// dovecotConf is the whole configuration: Dovecot does not read the system's. It does not delay
// the answer to a refused login, unlike the default.
const dovecotConf = `protocols = imap
base_dir = %[1]s/run
state_dir = %[1]s/run
log_path = %[1]s/log
ssl = yes
ssl_cert = <%[1]s/cert.pem
ssl_key = <%[1]s/key.pem
disable_plaintext_auth = no
auth_mechanisms = plain
first_valid_uid = %[2]d
mail_location = maildir:%[1]s/mail/%%u
default_login_user = dovecot
default_internal_user = dovecot
passdb {
  driver = passwd-file
  args = scheme=PLAIN username_format=%%u %[1]s/users
}
userdb {
  driver = static
  args = uid=%[2]d gid=%[2]d home=%[1]s/mail/%%u
}
namespace inbox {
  inbox = yes
  mailbox Sent {
    special_use = \Sent
  }
}
service imap-login {
  chroot =
  inet_listener imap {
    address = 127.0.0.1
    port = %[3]d
  }
  inet_listener imaps {
    address = 127.0.0.1
    port = %[4]d
    ssl = yes
  }
}
auth_failure_delay = 0
service anvil {
  chroot =
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
service stats {
  chroot =
}
`

const maxUsers = 50

// StartDovecot starts Dovecot for one test. If Dovecot is not installed or this user may not start it,
// it skips the test, or fails with AGENTSTATELOOP_REQUIRE_REAL=1, as in continuous integration.
func StartDovecot(t T) *Dovecot {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath("dovecot"); err != nil || os.Getuid() != 0 { // its services change user
		const missing = "dovecot is not installed, or this user may not start it"
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
			t.Skip(missing)
		}
		t.Fatal(missing)
	}
	// t.TempDir does not work here: the path of a socket has at most 108 bytes, and the users
	// of Dovecot must be able to enter it.
	dir, err := os.MkdirTemp("/tmp", "dc")
	must(err)
	d := &Dovecot{
		CAFile: filepath.Join(dir, "ca.pem"), Password: "correct horse", dir: dir, mail: 8,
	}
	must(endWith(t, dir))
	port, err := testkit.FreePort(1)
	must(err)
	d.IMAP, d.IMAPTLS = fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", port+1)
	must(d.prepare(port))
	must(d.addUser())
	// The daemon never closes its output, so the output goes to a file: a reader of a pipe would wait
	// forever.
	start := exec.Command("sh", "-c", `dovecot -c "$1/conf" >"$1/out" 2>&1 || { cat "$1/out"; exit 1; }`, "sh", dir)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatal("start dovecot: ", err, string(out))
	}
	for _, addr := range []string{d.IMAP, d.IMAPTLS} {
		if err := testkit.Listens(addr, time.Minute); err != nil {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatal("dovecot does not answer: ", err, "\n", string(log))
		}
	}
	return d
}

// endWith stops the daemon of dir and removes dir when the test ends. It does so even if the
// process of the test is killed and runs no cleanup: the input of the watcher ends with the
// process.
func endWith(t T, dir string) error {
	watcher := exec.Command("sh", "-c", `cat >/dev/null; doveadm -c "$1/conf" stop >/dev/null 2>&1; rm -rf "$1"`, "sh", dir)
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal to the group of the test must not reach it
	in, err := watcher.StdinPipe()
	if err != nil {
		return err
	}
	if err := watcher.Start(); err != nil {
		return err
	}
	t.Cleanup(func() {
		in.Close()
		watcher.Wait() // a leftover daemon or folder harms no test
	})
	return nil
}

func (d *Dovecot) prepare(port int) error {
	cfg, err := localhostTLS(nil, d.CAFile)
	if err != nil {
		return err
	}
	cert := cfg.Certificates[0]
	key, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return err
	}
	// All users at once: Dovecot notices changes of the file only once per second.
	var users strings.Builder
	for n := range maxUsers {
		fmt.Fprintf(&users, "agent%d:{PLAIN}%s\n", n+1, d.Password)
	}
	files := map[string]string{
		"cert.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})),
		"key.pem":  string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})),
		"users":    users.String(),
		"conf":     fmt.Sprintf(dovecotConf, d.dir, d.mail, port, port+1),
	}
	for name, content := range files {
		path := filepath.Join(d.dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
		// The users of Dovecot must read it, regardless of our umask.
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
	}
	return d.openDir("", 0)
}

// openDir makes a directory below dir that everybody may enter.
func (d *Dovecot) openDir(sub string, owner int) error {
	path := filepath.Join(d.dir, sub)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o755); err != nil {
		return err
	}
	return os.Chown(path, owner, owner)
}

// Conf returns the path of the configuration, for doveadm.
func (d *Dovecot) Conf() string { return filepath.Join(d.dir, "conf") }

// addUser makes d use a new user without mail.
func (d *Dovecot) addUser() error {
	if d.users++; d.users > maxUsers {
		return fmt.Errorf("this dovecot has only %d users", maxUsers)
	}
	d.n = 0
	d.Username = fmt.Sprintf("agent%d", d.users)
	d.Maildir = filepath.Join(d.dir, "mail", d.Username)
	home := filepath.Join("mail", d.Username)
	for _, sub := range []string{"mail", home, home + "/tmp", home + "/new", home + "/cur"} {
		if err := d.openDir(sub, d.mail); err != nil {
			return err
		}
	}
	return nil
}

// Fresh returns the same server with the empty mailbox of another user.
func (d *Dovecot) Fresh(t T) *Dovecot {
	t.Helper()
	if err := d.addUser(); err != nil {
		t.Fatal(err)
	}
	other := *d
	return &other
}

// Append delivers a mail like a delivery agent, as a file in the Maildir, seen or not. Dovecot
// assigns the next UID when it next reads the folder.
func (d *Dovecot) Append(raw []byte, seen bool) error {
	d.n++
	name := fmt.Sprintf("%d.M%06dP1.test", time.Now().Unix(), d.n)
	path := filepath.Join(d.Maildir, "new", name)
	if seen {
		path = filepath.Join(d.Maildir, "cur", name+":2,S")
	}
	temp := filepath.Join(d.Maildir, "tmp", name)
	if err := os.WriteFile(temp, raw, 0o600); err != nil {
		return err
	}
	if err := os.Chown(temp, d.mail, d.mail); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// Renumber removes all mail and changes the UIDVALIDITY of the mailbox.
func (d *Dovecot) Renumber() error {
	for _, sub := range []string{"new", "cur"} {
		folder := filepath.Join("mail", d.Username, sub)
		if err := errors.Join(os.RemoveAll(filepath.Join(d.dir, folder)), d.openDir(folder, d.mail)); err != nil {
			return err
		}
	}
	out, err := exec.Command("doveadm", "-c", d.Conf(), "mailbox", "update", "--uid-validity", fmt.Sprint(time.Now().Unix()+1000), "-u", d.Username, "INBOX").CombinedOutput()
	if err != nil {
		return fmt.Errorf("renumber: %w: %s", err, out)
	}
	return nil
}
