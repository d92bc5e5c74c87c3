package config

import (
	"io"
	"text/template"
	"time"
	"unicode/utf8"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// maxName limits the display name of the agent, in characters.
const maxName = 60

// wireReplies parses the templates of [replies]. It executes each once, to find errors now and not
// when a mail must be sent.
func wireReplies(c *Config) (cycle.Replies, error) {
	name := c.File.Replies.Name
	replies := cycle.Replies{Name: name, HTML: c.File.Replies.HTML, Sent: c.File.Replies.Sent}
	if plain.Line(name) != name || utf8.RuneCountInString(name) > maxName {
		return replies, c.Wrong("replies.name", "write one line of at most %d characters", maxName)
	}
	for _, r := range []struct {
		key  string
		text string
		into **template.Template
	}{
		{"replies.ack", c.File.Replies.Ack, &replies.Ack},
		{"replies.quiet_prep", c.File.Replies.QuietPrep, &replies.QuietPrep},
		{"replies.quiet_active", c.File.Replies.QuietActive, &replies.QuietActive},
	} {
		if r.text == "" {
			continue
		}
		t, err := template.New(r.key).Parse(r.text)
		if err == nil {
			handle := c.File.Agent.Handle
			err = t.Execute(io.Discard, cycle.ReplyData{Handle: handle, Callsign: "@" + handle, Phase: string(state.IDLE)})
		}
		if err != nil {
			return replies, c.At(dotted(r.key), "use only {{.Handle}}, {{.Callsign}} and {{.Phase}}", "%v", err)
		}
		*r.into = t
	}
	return replies, nil
}

// checkAckAfter rejects a delay after which an ack would be useless: PREP would be over, or the
// outbox would already drop the ack for its age.
func (c *Config) checkAckAfter() error {
	const key = "replies.ack_after"
	after, prep := time.Duration(c.File.Replies.AckAfter), time.Duration(c.File.Timing.PrepTimeout)
	switch {
	case after > 0 && after >= prep:
		return c.Wrong(key, "%s is too long: it must be less than [timing] prep_timeout, which is %s", terminal.Short(after), terminal.Short(prep))
	case after > state.MaxAckAfter:
		return c.Wrong(key, "%s is too long: at most %s", terminal.Short(after), terminal.Short(state.MaxAckAfter))
	}
	return nil
}
