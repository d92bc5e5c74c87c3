package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestExampleIsComplete checks that the example is a valid configuration, has every key
// and the right defaults.
func TestExampleIsComplete(t *testing.T) {
	data, err := os.ReadFile("../../agent.toml.example")
	if err != nil {
		t.Fatal(err)
	}
	mustLoad(t, string(data))

	// Lines like "# key = value" and "# [section]" are meant to be uncommented.
	setting := regexp.MustCompile(`(?m)^# (\[\[?[a-z0-9._\-"]+\]\]?|[a-z_]+ *= )`)
	all := setting.ReplaceAllString(string(data), "$1")
	c, err := newTestLoader().Read(writeConfig(t, all))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, key := range c.meta.Keys() {
		for i := range key {
			shown[strings.Join(key[:i+1], ".")] = true
		}
	}
	for _, key := range allKeys(nil) {
		of := strings.TrimPrefix(key, "mail.smtp.")
		if !shown[key] && !(of != key && shown["mail.imap."+of]) && !slices.Contains([]string{"mesh.token_env", "mesh.token_command", "mesh.key_env", "mesh.key_command"}, key) {
			t.Errorf("%s is not in the example", key)
		}
	}
	want := defaults()
	for _, test := range []struct{ section, got, want any }{
		{"timing", c.File.Timing, want.Timing},
		{"replies", c.File.Replies, want.Replies},
		{"schedule.mode", c.File.Schedule.Mode, want.Schedule.Mode},
		{"listen", c.File.Listen, want.Listen},
		{"schedule.crontab", c.File.Schedule.Crontab, want.Schedule.Crontab},
		{"keep", c.File.Agent.Keep, want.Agent.Keep},
		{"mailbox", c.File.Mail.Mailbox, want.Mail.Mailbox},
		{"tls", c.File.Mail.IMAP.TLS, want.Mail.IMAP.TLS},
		{"auth", c.File.Mail.IMAP.Auth, want.Mail.IMAP.Auth},
		{"turn.timeout", c.File.Turn.Timeout, want.Turn.Timeout},
		{"turn.linger", c.File.Turn.Linger, want.Turn.Linger},
		{"turn.settle", c.File.Turn.Settle, want.Turn.Settle},
		{"recall", c.File.Turn.Recall, want.Turn.Recall},
		{"api.context_window", c.File.API.ContextWindow, want.API.ContextWindow},
		{"max_output", c.File.API.MaxOutput, want.API.MaxOutput},
		{"max_calls", c.File.API.MaxCalls, want.API.MaxCalls},
		{"max_tools", c.File.API.MaxTools, want.API.MaxTools},
		{"api.exec", c.File.API.Exec.limits(), want.API.Exec.limits()},
		{"max_attempts", c.File.Turn.MaxAttempts, want.Turn.MaxAttempts},
		{"trust.mesh", c.File.Trust.Mesh, want.Trust.Mesh},
		{"low_usd", c.File.Budget.LowUSD, want.Budget.LowUSD},
		{"critical_usd", c.File.Budget.CriticalUSD, want.Budget.CriticalUSD},
		{"multiplier", c.File.Budget.Multiplier, want.Budget.Multiplier},
		{"trust.require", c.File.Trust.Require, want.Trust.Require},
		{"trust.verify", c.File.Trust.Verify, want.Trust.Verify},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("the example's default of %v is %+v, want %+v", test.section, test.got, test.want)
		}
	}
}
