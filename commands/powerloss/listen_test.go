package powerloss

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

func setListen(s *story) {
	s.writeFile("hook", "open sesame\n")
	s.configure("[turn]\nrunner = \"none\"\n", uncronned)
}

// tellListen: a program nudges a listener, which is started again in between.
func tellListen(s *story) {
	for life := range 2 {
		url, stop := s.serve(true, "listen", "--token-file", "hook")
		for i := range 2 {
			s.ring(url, fmt.Sprintf("nudge %d of life %d", i, life))
		}
		stop()
	}
}

// ring calls the webhook, which must accept the nudge.
func (s *story) ring(url, reason string) {
	s.Helper()
	req, err := http.NewRequest(http.MethodPost, url+"/nudge", strings.NewReader(fmt.Sprintf(`{"reason": %q}`, reason)))
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
		s.Fatalf("%s is answered %s", reason, resp.Status)
	}
	s.world.note(event{kind: told, text: reason})
}

func holdListen(c *crash) {
	c.poll()
	c.wantSound()
	lines := c.history("nudge")
	for _, reason := range c.had(told) {
		if !slices.ContainsFunc(lines, func(l line) bool { return l.Reason == reason }) {
			c.Errorf("%q was accepted and is lost", reason)
		}
	}
}
