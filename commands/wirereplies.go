package commands

import (
	"io"
	"text/template"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// wireReplies parses the texts of our own mails and tries each once, so that
// a wrong one is found now and not at the moment it is wanted.
func wireReplies(c *config) (cycle.Replies, error) {
	var replies cycle.Replies
	for _, r := range []struct {
		key  string
		text string
		into **template.Template
	}{
		{"replies.ack", c.file.Replies.Ack, &replies.Ack},
		{"replies.quiet_prep", c.file.Replies.QuietPrep, &replies.QuietPrep},
		{"replies.quiet_active", c.file.Replies.QuietActive, &replies.QuietActive},
	} {
		if r.text == "" {
			continue
		}
		t, err := template.New(r.key).Parse(r.text)
		if err == nil {
			handle := c.file.Agent.Handle
			err = t.Execute(io.Discard, cycle.ReplyData{Handle: handle, Callsign: "@" + handle, Phase: string(state.IDLE)})
		}
		if err != nil {
			return replies, c.at([]string{"replies", r.key[len("replies."):]}, "{{.Handle}}, {{.Callsign}} and {{.Phase}} can be used", "%v", err)
		}
		*r.into = t
	}
	return replies, nil
}
