package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/turn"
)

// loopConfig is the agent.toml of the loop, which runs in its own process. It describes the same
// agent as newAgent does.
const loopConfig = `[agent]
handle = %q
operator = [%q]
state_dir = "state"
[mail]
address = %q
[mail.imap]
host = %q
password_file = "password"
ca_file = %q
[mail.smtp]
host = %q
ca_file = %[5]q
[trust]
require = "from"
mesh = "open"
[mesh]
url = %[7]q
peers = [%[8]q]
[turn]
runner = "api"
workdir = "work"
timeout = "1m"
[schedule]
mode = "none"
[api]
provider = "anthropic"
base_url = %[9]q
model = "claude-sonnet-4-5"
key_file = "key"
`

// serveModel makes our own loop run the turns. It starts a scripted model, and writes the
// configuration of the loop.
func (s *stage) serveModel(dir, self, meshURL string) error {
	url, stop, err := (&scripted.Server{Script: answer}).Start()
	if err != nil {
		return err
	}
	s.model = stop
	files := map[string]string{
		"agent.toml": fmt.Sprintf(loopConfig, handle, operator, address, s.mail.IMAPTLS, s.mail.CAFile, s.mail.SMTPTLS, meshURL, peer, url),
		"password":   s.mail.Password,
		"key":        scripted.Key,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		return err
	}
	config := filepath.Join(dir, "agent.toml")
	s.agent.Config, s.agent.Turn.Runner = config, turn.API
	s.loop = func() []string {
		return []string{self, "--config", config, "__react", "--now", s.Now.Format(time.RFC3339)}
	}
	return nil
}

// answer returns the model's reply. The model remembers the question if the tool is allowed, and
// then answers in one line.
func answer(q scripted.Request) scripted.Reply {
	text := q.Messages[0].Text
	if _, after, ok := strings.Cut(text, "\n<message "); ok {
		_, after, _ = strings.Cut(after, ">\n")
		text, _, _ = strings.Cut(after, "\n")
	}
	last := q.Last()
	for _, tool := range q.Tools {
		if tool == "remember" && len(last.Results) == 0 {
			return scripted.Reply{Calls: []scripted.Call{{ID: fmt.Sprintf("call_%d", q.Number), Name: tool, Args: fmt.Sprintf(`{"text":%q}`, "Was asked: "+text)}}}
		}
	}
	for _, r := range last.Results {
		if r.Text != "remembered" {
			return scripted.Reply{Text: "I could not remember it: " + r.Text}
		}
	}
	return scripted.Reply{Text: fmt.Sprintf("You wrote %q. Consider it done.", text)}
}
