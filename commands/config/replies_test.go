package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAckAfter(t *testing.T) {
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
		a, err := newTestLoader().Load(writeConfig(t, smallConfig+smallMail+test.text+"\n"))
		switch {
		case test.err == "" && err != nil:
			t.Errorf("%q: %v", test.text, err)
		case test.err == "" && a.Policy.AckAfter != test.want:
			t.Errorf("%q: acks wait for %v, want %v", test.text, a.Policy.AckAfter, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%q: %v, want %q", test.text, err, test.err)
		}
	}
}

func TestDisplayName(t *testing.T) {
	for name, want := range map[string]string{
		"Goulard": "", "Gouláрд, the 3rd \"x\"": "", strings.Repeat("ü", 60): "", "": "",
		strings.Repeat("ü", 61): "at most 60 characters", "two\nlines": "one line", " blank": "one line",
	} {
		a, err := newTestLoader().Load(writeConfig(t, smallConfig+smallMail+fmt.Sprintf("[replies]\nname = %q\n", name)))
		switch {
		case want == "" && (err != nil || a.Replies.Name != name):
			t.Errorf("%q: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "replies.name: ") || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
