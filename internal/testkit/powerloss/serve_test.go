package powerloss

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"agentstateloop/mesh"
	"agentstateloop/state/store"
)

var address = regexp.MustCompile(`http://\S+`)

// serve runs a server of the program until stop ends it by TERM. url is where it says
// that it listens. Without record it runs without strace.
func (s *story) serve(record bool, args ...string) (url string, stop func()) {
	s.Helper()
	url, wait := s.begin(record, args...)
	return strings.TrimSuffix(url, "/"), func() {
		s.terminate()
		wait()
	}
}

// begin starts a command and returns the first address that it prints. wait waits for its end.
func (s *story) begin(record bool, args ...string) (url string, wait func() error) {
	s.Helper()
	line := s.args(args...)
	cmd, read := s.command(line...), func() {}
	if record {
		cmd, read = s.start(line...)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for url == "" && lines.Scan() {
		url = address.FindString(lines.Text())
	}
	if url == "" {
		cmd.Wait()
		s.Fatalf("%s: it prints no address: %s", args, errs.Bytes())
	}
	return url, func() error {
		for lines.Scan() {
		}
		err := cmd.Wait()
		read()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, errs.Bytes())
		}
		return err
	}
}

var serveArgs = []string{"mesh", "serve", "--open", "--addr", "127.0.0.1:0", "--dir", "disk/mesh/d"}

func peer(url, handle string) *mesh.Client { return &mesh.Client{URL: url, Handle: handle} }

// contentOf returns the bytes of the file that goes with a message: more than a disk
// writes at once.
func contentOf(text string) string { return strings.Repeat("file of "+text+"\n", 100) }

// upload uploads the file that goes with a message.
func (s *story) upload(c *mesh.Client, text string) mesh.File {
	s.Helper()
	content := contentOf(text)
	f := mesh.File{SHA256: store.Sum([]byte(content)), Name: "in.txt", Type: "text/plain", Size: int64(len(content))}
	if err := c.PutBlob(context.Background(), "", f.SHA256, f.Size, strings.NewReader(content)); err != nil {
		s.Fatal(err)
	}
	return f
}

// download returns the bytes of a file in the mailbox of a client.
func (c *crash) download(from *mesh.Client, f mesh.File) string {
	c.Helper()
	var content strings.Builder
	err := from.GetBlob(context.Background(), "", f, func(r io.Reader) error { _, err := io.Copy(&content, r); return err })
	if err != nil {
		c.Errorf("the file %s: %v", f.Name, err)
	}
	return content.String()
}

// tellServe: peers post and collect messages, and nudge, and the mesh is started again
// in between.
func tellServe(s *story) {
	for life := range 2 {
		url, stop := s.serve(true, serveArgs...)
		from, to := peer(url, "dorlange3120"), peer(url, "goulard3120")
		for i := range 3 {
			text := fmt.Sprintf("message %d of life %d", i, life)
			m := mesh.Message{To: "goulard3120", Text: text}
			if i == 1 {
				m.Files = []mesh.File{s.upload(from, text)}
			}
			if _, err := from.Send(context.Background(), m); err != nil {
				s.Fatal(err)
			}
			s.world.note(event{kind: told, text: text})
		}
		box, err := to.Mailbox(context.Background(), 0)
		if err != nil {
			s.Fatal(err)
		}
		first := box.Messages[0]
		s.world.note(event{kind: used, text: first.Text})
		if err := to.Ack(context.Background(), first.ID); err != nil {
			s.Fatal(err)
		}
		stop()
	}
	url, stop := s.serve(true, serveArgs...)
	if err := peer(url, "goulard3120").Halt(context.Background()); err != nil {
		s.Fatal(err)
	}
	s.world.note(event{kind: told, text: "HALT"})
	stop()
}

func holdServe(c *crash) {
	url, stop := c.serve(false, serveArgs...)
	defer stop()
	box, err := peer(url, "goulard3120").Mailbox(context.Background(), 0)
	if err != nil {
		c.Errorf("%v", err)
		return
	}
	held := map[string]int{}
	for _, m := range box.Messages {
		held[m.Text]++
	}
	for _, text := range c.had(used) {
		held[text]++ // it was handed over
	}
	for _, text := range c.had(told) {
		switch {
		case text == "HALT" && !box.Halted:
			c.Errorf("HALT is forgotten")
		case text != "HALT" && held[text] == 0:
			c.Errorf("%q was accepted and is lost", text)
		}
	}
	for _, m := range box.Messages {
		for _, f := range m.Files {
			if got := c.download(peer(url, "goulard3120"), f); got != contentOf(m.Text) {
				c.Errorf("the file of %q was accepted and holds %q", m.Text, got)
			}
		}
		if !regexp.MustCompile(`^message \d of life \d$`).MatchString(m.Text) {
			c.Errorf("it holds %q", m.Text)
		}
	}
	if names := c.files("mesh/d/*.corrupt-*"); len(names) > 0 {
		c.Errorf("%q had to be set aside", names)
	}
	c.wantPrivate("mesh/d/*")
}

// leftText is what a script has left in nudges/ before the listener starts.
const leftText = "the disk is full"

func setListen(s *story) {
	s.writeFile("hook", "open sesame\n")
	dir := s.path(filepath.Join(stateDir, "nudges"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "check.message"), []byte(leftText), 0o600); err != nil {
		s.Fatal(err)
	}
	s.configure("[turn]\nrunner = \"none\"\n", uncronned)
}

// tellListen: a program nudges a listener and says something to it. The listener is
// started again in between.
func tellListen(s *story) {
	for life := range 2 {
		url, stop := s.serve(true, "listen", "--token-file", "hook")
		for i := range 2 {
			text := fmt.Sprintf("nudge %d of life %d", i, life)
			s.posts(url+"/nudge", fmt.Sprintf(`{"reason": %q}`, text), text)
		}
		text := fmt.Sprintf("message of life %d", life)
		s.posts(url+"/message", fmt.Sprintf(`{"text": %q}`, text), text)
		stop()
	}
}

// posts calls the webhook, which must accept what it is told.
func (s *story) posts(url, body, text string) {
	s.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer open sesame")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		s.Fatalf("%s is answered %s", text, resp.Status)
	}
	s.world.note(event{kind: told, text: text})
}

func holdListen(c *crash) {
	c.run("poll", "--quiet") // its messages wait: nothing runs turns here
	c.run("poll", "--quiet")
	c.wantSound()
	lines, messages := c.history("nudge"), map[string]int{}
	for _, name := range c.files(stateDir + "/messages/*.txt") {
		messages[c.read(name)]++
	}
	for _, text := range c.had(told) {
		if messages[text] == 0 && !slices.ContainsFunc(lines, func(l line) bool { return l.Reason == text }) {
			c.Errorf("%q was accepted and is lost", text)
		}
	}
	took := slices.DeleteFunc(c.history("message"), func(l line) bool { return !strings.HasPrefix(l.Key, "nudge:check.message@") })
	// Its key has the inode of the file, which is another one on a disk that was made
	// again: so it may be taken twice here.
	if left := c.read(filepath.Join(stateDir, "nudges", "check.message")); messages[leftText] < 1 || len(took) < 1 || left != "" {
		c.Errorf("the message that a script had left was taken in %d times, as %v, and %q is still there", len(took), messages, left)
	}
}
