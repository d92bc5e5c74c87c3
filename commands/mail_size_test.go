package commands

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit"
	"agentstateloop/mail/message"
)

// sizedFile is the content of the attachment of the mails of these tests, and of the
// file that the agent answers with: 15 MB, in base64 a mail of 20 MB, or a fifth of
// that unless all that is real is required. Nothing compresses it.
func sizedFile() []byte {
	data := make([]byte, part(15_000_000, 3_000_000))
	rand.NewChaCha8([32]byte{15}).Read(data)
	return data
}

// slack is what all else in the state directory may take, in bytes.
const slack = 1_000_000

// withFile returns a mail of the operator with a file, and these fields in its header.
func withFile(file []byte, header string) []byte {
	mail := rawMail("From: operator@example.com\n"+header+"Content-Type: multipart/mixed; boundary=b\n",
		"--b\n\nhello\n--b\nContent-Type: application/zip\nContent-Disposition: attachment; filename=data.zip\nContent-Transfer-Encoding: base64\n")
	for encoded := base64.StdEncoding.EncodeToString(file); encoded != ""; {
		n := min(76, len(encoded))
		mail = append(append(mail, encoded[:n]...), "\r\n"...)
		encoded = encoded[n:]
	}
	return append(mail, "--b--\r\n"...)
}

// longText returns a mail of the operator that is all text, and as large.
func longText(file []byte, header string) []byte {
	mail := rawMail("From: operator@example.com\n"+header, "hello")
	return append(mail, bytes.Repeat([]byte("All work and no play makes a long mail.\r\n"), len(file)/30)...)
}

// sizedAgent is an agent whose state directory is measured.
type sizedAgent struct {
	*attackedAgent
	file []byte
	mail []byte
}

func newSizedAgent(t *testing.T, compose func(file []byte, header string) []byte, header, script string) *sizedAgent {
	t.Helper()
	w := newAttackedAgent(t, buildProgram(t, t.TempDir()))
	w.imap, w.imapCA, w.username, w.password = w.servers.IMAPTLS, w.servers.CAFile, w.servers.Username, w.servers.Password
	w.configure(believed)
	a := &sizedAgent{attackedAgent: w, file: sizedFile()}
	if err := testkit.WriteProgram(filepath.Join(w.dir, "agent.sh"), "#!/bin/sh\n"+script); err != nil {
		t.Fatal(err)
	}
	w.poll()
	a.mail = compose(a.file, header)
	if _, err := w.servers.Append(a.mail, time.Now()); err != nil {
		t.Fatal(err)
	}
	return a
}

// stored returns how many bytes the files of the state directory have.
func (a *sizedAgent) stored() (n int64) {
	a.t.Helper()
	err := filepath.WalkDir(filepath.Join(a.dir, "state"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// wantStored checks the size of the state directory.
func (a *sizedAgent) wantStored(when string, want int) {
	a.t.Helper()
	got := a.stored()
	a.t.Logf("%-28s %5.1f MB", when, float64(got)/1e6)
	if got < int64(want) || got > int64(want)+slack {
		a.t.Errorf("%s: the state directory has %d bytes, want %d", when, got, want)
	}
}

// polls polls once, whatever comes of it.
func (a *sizedAgent) polls(flags ...string) {
	cmd := exec.Command(a.program, append([]string{"--config", filepath.Join(a.dir, "agent.toml"), "poll"}, flags...)...)
	out, _ := cmd.CombinedOutput() // it may be killed, or find no server
	a.t.Logf("poll: %v: %s", cmd.ProcessState, bytes.TrimSpace(out))
}

// smtpAt makes the agent send its mail to another address.
func (a *sizedAgent) smtpAt(from, to string) {
	a.t.Helper()
	name := filepath.Join(a.dir, "agent.toml")
	config, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, bytes.Replace(config, []byte(from), []byte(to), 1), 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// A mail of 20 MB takes 20 MB of the state directory, once, and so does an answer with
// such a file: when it came, after an attempt that was killed, while the answer
// waits, and when it was sent. What the agent left is in its output box again then.
func TestLargeMailStoredOnce(t *testing.T) {
	t.Parallel()
	a := newSizedAgent(t, withFile, "", `echo run >>runs
cp "$AGENTSTATELOOP_CONTEXT"/attachments/* "$AGENTSTATELOOP_OUTPUT/data.zip"
find state -type f -printf '%s\n' | awk '{n += $1} END {print n}' >>during
if [ $(wc -l <runs) = 1 ]; then kill -9 $PPID; sleep 0.2; fi
echo done
`)
	in, out := len(a.mail), len(a.file)
	a.polls("--no-turn")
	a.wantStored("queued", in)
	a.smtpAt(a.servers.SMTPTLS, "127.0.0.1:1")
	a.polls()
	a.polls()
	if runs, _ := os.ReadFile(filepath.Join(a.dir, "runs")); strings.Count(string(runs), "run") != 2 {
		t.Fatalf("%q: want two attempts", runs)
	}
	a.wantStored("the answer waits", in+out)
	rows := string(a.run("outbox", "list", "--json"))
	if !strings.Contains(rows, "\"reply.") {
		t.Errorf("no answer waits: %s", rows)
	}
	a.smtpAt("127.0.0.1:1", a.servers.SMTPTLS)
	a.polls()
	a.wantStored("the answer was sent", in+out)
	during, _ := os.ReadFile(filepath.Join(a.dir, "during"))
	t.Logf("during the two attempts: %s bytes", strings.Fields(string(during)))

	var answer []byte
	for _, m := range a.servers.Sent() {
		if bytes.Contains(m.Raw, []byte("Message-ID: <reply.")) {
			answer = m.Raw
		}
	}
	files := message.ContentOf(answer, message.Sent{}).Attachments
	if len(files) != 1 || !bytes.Equal(files[0].Data, a.file) {
		t.Fatalf("the answer has %d bytes and %d files", len(answer), len(files))
	}
	kept, err := filepath.Glob(filepath.Join(a.dir, "state", "turns", "*", "*", "output", "data.zip"))
	if err != nil || len(kept) != 1 {
		t.Errorf("the output box has %q, %v", kept, err)
	}
}

// A mail in quarantine is stored once, and so it is when it was released, and after its turn.
func TestLargeQuarantinedMailStoredOnce(t *testing.T) {
	t.Parallel()
	a := newSizedAgent(t, withFile, "Auto-Submitted: auto-replied\n", "echo done\n")
	a.polls()
	a.wantStored("in quarantine", len(a.mail))
	keys, err := filepath.Glob(filepath.Join(a.dir, "state", "quarantine", "*"))
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v", keys, err)
	}
	var verdict struct{ Key string }
	data, err := os.ReadFile(filepath.Join(keys[0], "verdict.json"))
	if err == nil {
		err = json.Unmarshal(data, &verdict)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.run("inbox", "release", verdict.Key)
	installedAgent{a.dir, a.program}.waitForProcesses()
	a.wantStored("released", len(a.mail))
	a.polls()
	a.wantStored("after its turn", len(a.mail))
}

// A mail of 20 MB of text is stored once as well: the prompt that begins with it goes with
// the attempt.
func TestLargeTextStoredOnce(t *testing.T) {
	t.Parallel()
	a := newSizedAgent(t, longText, "", "echo run >>runs\nif [ $(wc -l <runs) = 1 ]; then kill -9 $PPID; sleep 0.2; fi\necho done\n")
	a.polls()
	a.polls()
	a.wantStored("after its turn", len(a.mail))
}
