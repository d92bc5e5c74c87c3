package mail_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"github.com/emersion/go-smtp"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"

	"agentstateloop/internal/testkit"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
)

// chainPrograms are the programs of the real chain. A real mail program hands a mail to Postfix.
// OpenDKIM or rspamd, as installed, signs it, and Postfix relays it to the test.
var chainPrograms = []string{"postfix", "opendkim", "rspamd", "mutt", "neomutt", "s-nail", "swaks", "msmtp"}

// chain is a running Postfix with a signing program.
type chain struct {
	addr  string // of Postfix
	home  string // of the mail programs
	mails chan []byte
}

const postfixConf = `compatibility_level = 3.6
queue_directory = %[1]s/queue
data_directory = %[1]s/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.example.com
mydestination =
alias_maps =
local_recipient_maps =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
relayhost = [127.0.0.1]:%[2]d
smtpd_milters = inet:127.0.0.1:%[3]d
milter_default_action = tempfail
smtpd_relay_restrictions = permit_mynetworks, reject
smtp_tls_security_level = none
maillog_file = %[1]s/postfix.log
maillog_file_prefixes = /tmp
`

const postfixServices = `127.0.0.1:%d inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 1 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
`

const opendkimConf = `Syslog no
Background no
Canonicalization relaxed/simple
OversignHeaders From
Mode s
Domain example.com
Selector chain
KeyFile %[1]s/key.pem
Socket inet:%[2]d@127.0.0.1
InternalHosts 127.0.0.1
RequireSafeKeys no
`

// rspamdConf has the files that override the installed configuration of rspamd. It only signs, and
// does not use the network.
var rspamdConf = map[string]string{
	"override.d/worker-proxy.inc":      `bind_socket = "127.0.0.1:%[2]d"; milter = yes; timeout = 60s; upstream "local" { default = yes; self_scan = yes; } count = 1;`,
	"override.d/worker-normal.inc":     `enabled = false;`,
	"override.d/worker-controller.inc": `enabled = false;`,
	"override.d/worker-fuzzy.inc":      `enabled = false;`,
	"override.d/logging.inc":           `type = "console"; level = "warning";`,
	"override.d/options.inc":           `dns { nameserver = ["127.0.0.1:9"]; timeout = 0.1s; retransmits = 1; } filters = "dkim"; disable_hyperscan = true;`,
	"override.d/actions.conf":          `reject = null; add_header = null; greylist = null;`,
	"local.d/dkim_signing.conf":        `sign_local = true; domain { "example.com" { path = "%[1]s/key.pem"; selector = "chain"; } }`,
}

// rspamdOff lists the modules of rspamd that use the network.
var rspamdOff = []string{
	"rbl", "surbl", "phishing", "asn", "mx_check", "url_redirector", "fuzzy_check", "neural", "replies", "greylist", "ratelimit", "history_redis", "bayes_expiry",
	"spf", "dmarc", "arc", "antivirus", "mime_types", "hfilter", "maillist", "known_senders",
}

// startChain starts the chain with one of the two signers. key is the private key.
func startChain(t *testing.T, signer string, key []byte) *chain {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "chain")
	if err != nil {
		t.Fatal(err)
	}
	port, err := testkit.FreePort(1)
	if err != nil {
		t.Fatal(err)
	}
	ports := []int{port, port + 1}
	c := &chain{addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), home: filepath.Join(dir, "home"), mails: make(chan []byte, 1)}
	files := map[string]string{
		"main.cf": fmt.Sprintf(postfixConf, dir, c.sink(t), ports[1]), "master.cf": fmt.Sprintf(postfixServices, ports[0]),
		"opendkim.conf": fmt.Sprintf(opendkimConf, dir, ports[1]), "key.pem": string(key), "home/x": "", "queue/x": "", "data/x": "", "run/x": "",
	}
	for name, text := range rspamdConf {
		if strings.Contains(text, "%[") {
			text = fmt.Sprintf(strings.ReplaceAll(text, "%[2]d", "%[1]d"), ports[1])
		}
		files[name] = text
	}
	files["local.d/dkim_signing.conf"] = strings.ReplaceAll(rspamdConf["local.d/dkim_signing.conf"], "%[1]s", dir)
	for _, module := range rspamdOff {
		files["override.d/"+module+".conf"] = "enabled = false;"
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	start := `chmod -R a+rX "$1"; chown postfix "$1/data"; chown -R _rspamd "$1/run"
if [ "$2" = opendkim ]; then opendkim -x "$1/opendkim.conf" -f & else
rspamd -f -c /etc/rspamd/rspamd.conf -u _rspamd -g _rspamd --var=LOCAL_CONFDIR="$1" --var=RUNDIR="$1/run" --var=DBDIR="$1/run" --var=LOGDIR="$1/run" & fi
signer=$!
postfix -c "$1" start
cat >/dev/null
postfix -c "$1" stop
kill $signer
wait
rm -rf "$1"`
	// The input ends with the process of the test, even if that is killed.
	servers := exec.Command("sh", "-c", start, "sh", dir, signer)
	servers.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	servers.Stdout, servers.Stderr = out, out
	in, err := servers.StdinPipe()
	if err == nil {
		err = servers.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		servers.Wait()
	})
	for _, port := range ports {
		if err := testkit.Listens(fmt.Sprintf("127.0.0.1:%d", port), 4*time.Minute); err != nil {
			output, _ := os.ReadFile(filepath.Join(dir, "out"))
			t.Fatalf("%s does not answer: %v\n%s", signer, err, output)
		}
	}
	return c
}

// sink starts a server that receives the mail from Postfix, and returns its port.
func (c *chain) sink(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return chainSink{c}, nil }))
	server.EnableSMTPUTF8, server.ErrorLog = true, log.New(io.Discard, "", 0)
	t.Cleanup(func() { server.Close() })
	go server.Serve(l) // ends with Close
	return l.Addr().(*net.TCPAddr).Port
}

type chainSink struct{ *chain }

func (chainSink) Reset()                               {}
func (chainSink) Logout() error                        { return nil }
func (chainSink) Mail(string, *smtp.MailOptions) error { return nil }
func (chainSink) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (r chainSink) Data(from io.Reader) error {
	raw, err := io.ReadAll(from)
	if err == nil {
		r.mails <- raw
	}
	return err
}

// send runs a mail program and returns the mail that leaves the chain.
func (c *chain) send(t *testing.T, program []string, input []byte) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	cmd.Dir, cmd.Stdin = c.home, bytes.NewReader(input)
	cmd.Env = []string{"HOME=" + c.home, "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TMPDIR=" + c.home}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", program, err, out)
	}
	select {
	case raw := <-c.mails:
		return raw
	case <-ctx.Done():
		t.Fatalf("%q: no mail came", program)
		return nil
	}
}

// honest is a mail of the operator from a real program.
type honest struct {
	name, text string // text is "" for a file alone and for an undeclared charset
	program    []string
	input      []byte
}

// honestMails returns forty mails of five programs. Their files are in home.
func honestMails(t *testing.T, c *chain) (all []honest) {
	t.Helper()
	const from, to, subject = "operator@example.com", "artificer3120@example.org", "@goulard3120 hello"
	host, port, _ := net.SplitHostPort(c.addr)
	write := func(name, text string) string {
		path := filepath.Join(c.home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pdf := write("plan.pdf", "%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n")
	msmtprc := write("msmtprc", "account default\nhost "+host+"\nport "+port+"\nauto_from off\nfrom "+from+"\n")
	muttrc := write("muttrc", "set from="+from+"\nset use_envelope_from=yes\nset copy=no\nset charset=utf-8\nset sendmail=\"/usr/bin/msmtp -C "+msmtprc+"\"\n")

	texts := map[string]struct {
		text, charset string
		in            encoding.Encoding
	}{
		"ascii":        {"what is new?", "us-ascii", encoding.Nop},
		"utf-8":        {"Grüße aus Köln: was gibt es?", "utf-8", encoding.Nop},
		"iso-8859-1":   {"Grüße aus Köln: was gibt es?", "iso-8859-1", charmap.ISO8859_1},
		"windows-1252": {"“Grüße” – was gibt es?", "windows-1252", charmap.Windows1252},
		"koi8-r":       {"Что нового? Перезапусти сервер.", "koi8-r", charmap.KOI8R},
		"iso-2022-jp":  {"サーバーを再起動してください。", "iso-2022-jp", japanese.ISO2022JP},
		"gb18030":      {"请重新启动服务器。", "gb18030", simplifiedchinese.GB18030},
	}
	encoded := func(name string) []byte {
		x := texts[name]
		b, err := x.in.NewEncoder().Bytes([]byte(x.text + "\n"))
		if x.in == encoding.Nop {
			b, err = []byte(x.text+"\n"), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	add := func(client, name, text string, input []byte, program ...string) {
		all = append(all, honest{client + ", " + name, text, program, input})
	}
	for _, client := range []string{"mutt", "neomutt"} {
		base := []string{client, "-n", "-F", muttrc, "-s", subject}
		for _, name := range []string{"ascii", "utf-8", "iso-8859-1", "koi8-r", "iso-2022-jp", "gb18030"} {
			x := texts[name]
			add(client, name, x.text, []byte(x.text+"\n"), append(base[:len(base):len(base)], "-e", "set send_charset="+x.charset, to)...)
		}
		add(client, "a file alone", "", []byte("\n"), append(base[:len(base):len(base)], "-a", pdf, "--", to)...)
		add(client, "a text and a file", texts["iso-8859-1"].text, []byte(texts["iso-8859-1"].text+"\n"), append(base[:len(base):len(base)], "-e", "set send_charset=iso-8859-1", "-a", pdf, "--", to)...)
	}
	snail := []string{"s-nail", "-:/", "-S", "v15-compat", "-S", "mta=smtp://" + c.addr, "-S", "smtp-auth=none", "-S", "nosave", "-S", "from=" + from, "-S", "ttycharset=utf-8", "-s", subject}
	for _, name := range []string{"ascii", "utf-8", "iso-8859-1", "windows-1252", "koi8-r", "gb18030"} {
		x := texts[name]
		add("s-nail", name, x.text, []byte(x.text+"\n"), append(snail[:len(snail):len(snail)], "-S", "sendcharsets="+x.charset, to)...)
	}
	add("s-nail", "8-bit", texts["iso-8859-1"].text, []byte(texts["iso-8859-1"].text+"\n"), append(snail[:len(snail):len(snail)], "-S", "sendcharsets=iso-8859-1", "-S", "mime-encoding=8bit", to)...)
	add("s-nail", "a text and a file", texts["koi8-r"].text, []byte(texts["koi8-r"].text+"\n"), append(snail[:len(snail):len(snail)], "-S", "sendcharsets=koi8-r", "-a", pdf, to)...)
	swaks := []string{"swaks", "--server", c.addr, "--from", from, "--to", to, "--h-Subject", subject, "--silent", "3"}
	for _, name := range []string{"ascii", "utf-8", "iso-8859-1", "koi8-r", "iso-2022-jp"} {
		body := write("body-"+name, string(encoded(name)))
		add("swaks", name, texts[name].text, nil, append(swaks[:len(swaks):len(swaks)], "--body", "@"+body, "--add-header", "MIME-Version: 1.0", "--add-header", "Content-Type: text/plain; charset="+texts[name].charset, "--add-header", "Content-Transfer-Encoding: 8bit")...)
	}
	bare := write("bare", string(encoded("iso-8859-1")))
	add("swaks", "8-bit that nothing declares", "", nil, append(swaks[:len(swaks):len(swaks)], "--body", "@"+bare)...)
	add("swaks", "utf-8 that nothing declares", texts["utf-8"].text, nil, append(swaks[:len(swaks):len(swaks)], "--body", "@"+write("bare-utf-8", string(encoded("utf-8"))))...)
	add("swaks", "a text and a file", texts["ascii"].text, nil, append(swaks[:len(swaks):len(swaks)], "--body", texts["ascii"].text, "--attach-type", "application/pdf", "--attach", "@"+pdf)...)
	head := "From: " + from + "\nTo: " + to + "\nSubject: " + subject + "\nMIME-Version: 1.0\n"
	msmtp := []string{"msmtp", "-C", msmtprc, "--set-from-header=off", "--set-date-header=auto", to}
	in64 := func(data []byte) string { return base64.StdEncoding.EncodeToString(data) + "\n" }
	for name, mail := range map[string][2]string{
		"base64 of latin-1":   {texts["iso-8859-1"].text, head + "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: base64\n\n" + in64(encoded("iso-8859-1"))},
		"base64 of koi8-r":    {texts["koi8-r"].text, head + "Content-Type: text/plain; charset=koi8-r\nContent-Transfer-Encoding: base64\n\n" + in64(encoded("koi8-r"))},
		"windows-1252":        {texts["windows-1252"].text, head + "Content-Type: text/plain; charset=windows-1252\nContent-Transfer-Encoding: 8bit\n\n" + string(encoded("windows-1252"))},
		"gb18030":             {texts["gb18030"].text, head + "Content-Type: text/plain; charset=gb18030\nContent-Transfer-Encoding: 8bit\n\n" + string(encoded("gb18030"))},
		"an unknown charset":  {"", head + "Content-Type: text/plain; charset=x-unknown\nContent-Transfer-Encoding: 8bit\n\n" + string(encoded("koi8-r"))},
		"a calendar alone":    {"", head + "Content-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nSUMMARY:x\nEND:VEVENT\nEND:VCALENDAR\n"},
		"html and text":       {texts["utf-8"].text, head + "Content-Type: multipart/alternative; boundary=b1\n\n--b1\nContent-Type: text/plain; charset=utf-8\n\n" + texts["utf-8"].text + "\n--b1\nContent-Type: text/html; charset=utf-8\n\n<p>" + texts["utf-8"].text + "</p>\n--b1--\n"},
		"a PDF alone, base64": {"", head + "Content-Type: application/pdf; name=plan.pdf\nContent-Transfer-Encoding: base64\n\n" + in64([]byte("%PDF-1.4\n1 0 obj\n<<>>\nendobj\n%%EOF\n"))},
	} {
		add("msmtp", name, mail[0], []byte(mail[1]), msmtp...)
	}
	return all
}

// verified returns a mail with the verification result that the agent's server adds.
func verified(t *testing.T, raw []byte, record string) string {
	t.Helper()
	found, err := dkim.VerifyWithOptions(bytes.NewReader(raw), &dkim.VerifyOptions{LookupTXT: func(name string) ([]string, error) {
		if name == "chain._domainkey.example.com" {
			return []string{record}, nil
		}
		return nil, fmt.Errorf("%s is not in the DNS", name)
	}})
	if err != nil || len(found) != 1 || found[0].Err != nil {
		t.Fatalf("the signature is not valid: %+v, %v\n%s", found, err, raw)
	}
	value := strings.Join(strings.Fields(message.Values(message.Fields(raw), "dkim-signature")[0]), "")
	_, b, _ := strings.Cut(value, ";b=")
	return ar + fmt.Sprintf("; dkim=pass header.d=example.com header.s=chain header.b=%q; dmarc=pass header.from=example.com\r\n", b[:8]) + string(raw)
}

// TestRealChain sends forty honest mails of real programs through a real chain, with verification by
// this program and by the mail server. Each one comes in with its own text, or is challenged.
func TestRealChain(t *testing.T) {
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "1" {
		t.Skipf("needs root and %s: set AGENTSTATELOOP_REQUIRE_REAL=1", strings.Join(chainPrograms, ", "))
	}
	for _, program := range chainPrograms {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatal(err)
		}
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	record := "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(public)
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	for _, signer := range []string{"opendkim", "rspamd"} {
		t.Run(signer, func(t *testing.T) {
			c := startChain(t, signer, private)
			judges := newCorpus(t)
			judges.dns.Set("chain._domainkey.example.com", record)
			mails := honestMails(t, c)
			if len(mails) != 40 {
				t.Errorf("%d mails, want 40", len(mails))
			}
			in, challenged := 0, []string{}
			for _, m := range mails {
				raw := verified(t, c.send(t, m.program, m.input), record)
				for mode, f := range judges.filters() {
					trial := probeOne(t, f, raw)
					switch {
					case trial.Gate == "":
						in++
						if got := message.ContentOf([]byte(raw), message.Sent{}).Text; !strings.Contains(got, m.text) {
							t.Errorf("%s, %s: %q arrives as %q", mode, m.name, m.text, got)
						}
					case trial.Gate == trust.GateTrust && trial.Doubtful:
						if m.text != "" {
							t.Errorf("%s, %s: challenged, although the text has only one reading", mode, m.name)
						}
						challenged = append(challenged, mode+": "+m.name)
					default:
						t.Errorf("%s, %s: refused by %s: %s\n%s", mode, m.name, trial.Gate, trial.Reason, raw)
					}
				}
			}
			t.Logf("%s: %d times in, %d times challenged: %s", signer, in, len(challenged), strings.Join(challenged, "; "))
		})
	}
}
