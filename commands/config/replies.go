package config

import (
	"io"
	"text/template"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// wireReplies parses the templates of [replies]. It executes each once to find its
// errors now, and not when a mail must be sent.
func wireReplies(c *Config) (cycle.Replies, error) {
	var replies cycle.Replies
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
