package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestAckAfterLimits checks the delay of acks, which must be shorter than the silence that ends PREP.
func TestAckAfterLimits(t *testing.T) {
	for _, test := range []struct {
		text string // of [replies] and [timing]
		want time.Duration
		err  string
	}{
		{"", 0, ""},
		{"[replies]\nack_after = \"0s\"", 0, ""},
		{"[replies]\nack_after = \"30s\"", 30 * time.Second, ""},
		{"[replies]\nack_after = \"4m59s\"", 4*time.Minute + 59*time.Second, ""},
		{"[replies]\nack_after = \"5m\"", 0, "replies.ack_after: 5m is too long: must be less than prep_timeout in [timing], which is 5m"},
		{"[replies]\nack_after = \"2m\"\n[timing]\nprep_timeout = \"90s\"", 0, "2m is too long: must be less than prep_timeout in [timing], which is 1m30s"},
		{"[replies]\nack_after = \"10m\"\n[timing]\nprep_timeout = \"1h\"", 10 * time.Minute, ""},
		{"[replies]\nack_after = \"11m\"\n[timing]\nprep_timeout = \"1h\"", 0, "replies.ack_after: 11m is too long: must be at most 10m"},
		{"[replies]\nack_after = \"-5s\"", 0, "replies.ack_after: "},
		{"[replies]\nack_after = 5", 0, "replies.ack_after: "},
		{"[replies]\nack_after = \"\"", 0, "replies.ack_after: "},
	} {
		text := smallConfig + smallMail + test.text + "\n"
		if test.err != "" {
			wantError(t, text, regexp.QuoteMeta(test.err), "")
		} else if got := mustLoad(t, text).Policy.AckAfter; got != test.want {
			t.Errorf("%q: acks wait for %v, want %v", test.text, got, test.want)
		}
	}
}

// TestReplyNameLimits checks which names the mails of the agent may have.
func TestReplyNameLimits(t *testing.T) {
	for name, want := range map[string]string{
		"Goulard": "", "Gouláрд, the 3rd \"x\"": "", strings.Repeat("ü", 60): "", "": "",
		strings.Repeat("ü", 61): "at most 60 characters", "two\nlines": "one line", " blank": "one line",
	} {
		text := smallConfig + smallMail + fmt.Sprintf("[replies]\nname = %q\n", name)
		if want != "" {
			wantError(t, text, "replies.name: .*"+want, "")
		} else if got := mustLoad(t, text).Replies.Name; got != name {
			t.Errorf("the name is %q, want %q", got, name)
		}
	}
}
