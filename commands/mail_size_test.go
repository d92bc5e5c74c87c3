package commands

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/mail/message"
)

// incompressibleFile returns the attachment of the mails of these tests and of the agent's answer: 15
// MB, in base64 a mail of 20 MB, or a fifth of that unless the real servers are required.
func incompressibleFile() []byte {
	data := make([]byte, part(15_000_000, 3_000_000))
	rand.NewChaCha8([32]byte{15}).Read(data)
	return data
}

// slack is the limit for all other files in the state directory, in bytes.
const slack = 1_000_000

// mailWithFile returns a mail of the operator with a file, and these fields in its header.
func mailWithFile(file []byte, header string) []byte {
	mail := rawMail("From: operator@example.com\n"+header+"Content-Type: multipart/mixed; boundary=b\n",
		"--b\n\nhello\n--b\nContent-Type: application/zip\nContent-Disposition: attachment; filename=data.zip\nContent-Transfer-Encoding: base64\n")
	for encoded := base64.StdEncoding.EncodeToString(file); encoded != ""; {
		n := min(76, len(encoded))
		mail = append(append(mail, encoded[:n]...), "\r\n"...)
		encoded = encoded[n:]
	}
	return append(mail, "--b--\r\n"...)
}

// mailOfText returns a mail of the operator that is all text, and as large.
func mailOfText(file []byte, header string) []byte {
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
	w.configure(trustFrom)
	a := &sizedAgent{attackedAgent: w, file: incompressibleFile()}
	writeScript(t, filepath.Join(w.dir, "agent.sh"), script)
	w.poll()
	a.mail = compose(a.file, header)
	if _, err := w.servers.Append(a.mail, time.Now()); err != nil {
		t.Fatal(err)
	}
	return a
}

// stateSize returns how many bytes the files of the state directory have.
func (a *sizedAgent) stateSize() (n int64) {
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
	got := a.stateSize()
	a.t.Logf("%-28s %5.1f MB", when, float64(got)/1e6)
	if got < int64(want) || got > int64(want)+slack {
		a.t.Errorf("%s: the state directory has %d bytes, want %d", when, got, want)
	}
}

// tryPoll polls once. The poll may fail.
func (a *sizedAgent) tryPoll(flags ...string) {
	cmd := a.command(a.t.Context(), append([]string{"poll"}, flags...)...)
	out, _ := cmd.CombinedOutput() // it may be killed, or find no server
	a.t.Logf("poll: %v: %s", cmd.ProcessState, bytes.TrimSpace(out))
}

// replaceInConfig replaces a text in the configuration.
func (a *sizedAgent) replaceInConfig(from, to string) {
	a.t.Helper()
	file := filepath.Join(a.dir, "agent.toml")
	writeFile(a.t, file, strings.Replace(readFile(a.t, file), from, to, 1))
}

// TestLargeMailStoredOnce checks that a mail of 20 MB takes 20 MB of the state directory, and so does
// an answer with such a file: on arrival, after an attempt that was killed, while the answer waits,
// and when it was sent. Then the file of the agent is in its output box again.
func TestLargeMailStoredOnce(t *testing.T) {
	t.Parallel()
	a := newSizedAgent(t, mailWithFile, "", `echo run >>runs
cp "$AGENTSTATELOOP_CONTEXT"/attachments/* "$AGENTSTATELOOP_OUTPUT/data.zip"
find state -type f -printf '%s\n' | awk '{n += $1} END {print n}' >>during
if [ $(wc -l <runs) = 1 ]; then kill -9 $PPID; sleep 0.2; fi
echo done
`)
	in, out := len(a.mail), len(a.file)
	a.tryPoll("--no-turn")
	a.wantStored("queued", in)
	a.replaceInConfig(a.servers.SMTPTLS, "127.0.0.1:1")
	a.tryPoll()
	a.tryPoll()
	if runs, _ := os.ReadFile(filepath.Join(a.dir, "runs")); strings.Count(string(runs), "run") != 2 {
		t.Fatalf("%q: want two attempts", runs)
	}
	a.wantStored("the answer waits", in+out)
	rows := string(a.run("outbox", "list", "--json"))
	if !strings.Contains(rows, "\"reply.") {
		t.Errorf("no answer waits: %s", rows)
	}
	a.replaceInConfig("127.0.0.1:1", a.servers.SMTPTLS)
	a.tryPoll()
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
	output, err := filepath.Glob(filepath.Join(a.dir, "state", "turns", "*", "*", "output", "data.zip"))
	if err != nil || len(output) != 1 {
		t.Errorf("the output box has %q, %v", output, err)
	}
}

// TestLargeQuarantinedMailStoredOnce checks that a mail in quarantine is stored once, also when it was
// released, and after its turn.
func TestLargeQuarantinedMailStoredOnce(t *testing.T) {
	t.Parallel()
	a := newSizedAgent(t, mailWithFile, "Auto-Submitted: auto-replied\n", "echo done\n")
	a.tryPoll()
	a.wantStored("in quarantine", len(a.mail))
	keys, err := filepath.Glob(filepath.Join(a.dir, "state", "quarantine", "*"))
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v", keys, err)
	}
	var verdict struct{ Key string }
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(keys[0], "verdict.json"))), &verdict); err != nil {
		t.Fatal(err)
	}
	a.run("inbox", "release", verdict.Key)
	a.waitForProcesses()
	a.wantStored("released", len(a.mail))
	a.tryPoll()
	a.wantStored("after its turn", len(a.mail))
}

// TestLargeTextStoredOnce checks that a mail of 20 MB of text is stored once. The prompt that begins
// with it is removed with the attempt.
func TestLargeTextStoredOnce(t *testing.T) {
	t.Parallel()
	a := newSizedAgent(t, mailOfText, "", "echo run >>runs\nif [ $(wc -l <runs) = 1 ]; then kill -9 $PPID; sleep 0.2; fi\necho done\n")
	a.tryPoll()
	a.tryPoll()
	a.wantStored("after its turn", len(a.mail))
}
