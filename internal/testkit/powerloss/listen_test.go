package powerloss

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
	for _, name := range c.files(filepath.Join(stateDir, "messages", "*.txt")) {
		messages[c.read(strings.TrimPrefix(name, c.root+"/"))]++
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
