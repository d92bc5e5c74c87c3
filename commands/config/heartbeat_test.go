package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWrongHeartbeat checks that each error of the heartbeat names the line and the key,
// and never the address.
func TestWrongHeartbeat(t *testing.T) {
	for _, test := range []struct{ schedule, want, hint string }{
		{`heartbeat = "hc-ping.com/KEY-1234"`, `:7: schedule.heartbeat: is not an https URL$`, "https://hc-ping.com/…"},
		{`heartbeat = "ftp://hc-ping.com/KEY-1234"`, `:7: schedule.heartbeat: is not an https URL$`, "https://hc-ping.com/…"},
		{`heartbeat = "https://a:0/KEY-1234"`, `:7: schedule.heartbeat: has a port that`, "65535"},
		{`heartbeat = "https://u:KEY-1234@a/"`, `:7: schedule.heartbeat: must not contain a user or a password$`, "secret enough"},
		{`heartbeat = "http://10.0.0.7/KEY-1234"`, `:7: schedule.heartbeat: would be requested unencrypted$`, "heartbeat_insecure = true"},
		{"mode = \"none\"\nheartbeat = \"http://10.0.0.7/KEY-1234\"", `:8: schedule.heartbeat: `, ""},
		{`heartbeat = 7`, `:7: schedule.heartbeat: must be a string, not an integer$`, ""},
		{`heartbeat = ["https://a/KEY-1234"]`, `:7: schedule.heartbeat: must be a string, not an array$`, ""},
		{"heartbeat = \"https://a/KEY-1234\"\nheartbeat_file = \"f\"", `: schedule: 2 of heartbeat, heartbeat_file, heartbeat_env and heartbeat_command are set$`, "keep one"},
		{"heartbeat_env = \"E\"\nheartbeat_command = [\"c\"]", `: schedule: 2 of`, "keep one"},
		{`heartbeat_insecure = true`, `:7: schedule.heartbeat_insecure: can only be used with a heartbeat$`, "heartbeat_file"},
		{`heartbeat_url = "https://a/KEY-1234"`, `:7: schedule.heartbeat_url: unknown key$`, ""},
		{`heartbeat = "https://a/KEY-1234`, `:7: schedule.heartbeat: `, ""},
	} {
		path := writeConfig(t, smallConfig+"[schedule]\n"+test.schedule+"\n")
		_, err := newTestLoader().Load(path)
		wrong, ok := errors.AsType[*Error](err)
		if !ok {
			t.Errorf("%s: got %v, want an Error", test.schedule, err)
			continue
		}
		text := err.Error() + wrong.Hint()
		if !regexp.MustCompile(test.want).MatchString(err.Error()) || !strings.Contains(wrong.Hint(), test.hint) || strings.Contains(text, "KEY-1234") {
			t.Errorf("%s\ngot  %s; hint %q\nwant %s; %q", test.schedule, err, wrong.Hint(), test.want, test.hint)
		}
	}
}

// TestHeartbeatAddress checks that the address is found in each place, and redacted from
// then on.
func TestHeartbeatAddress(t *testing.T) {
	const address = "https://hc-ping.com/fqOOd6-F4MMNuCEnzTU01w/agent"
	file := filepath.Join(t.TempDir(), "heartbeat")
	if err := os.WriteFile(file, []byte(address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, schedule := range []string{
		`heartbeat = "` + address + `"`, `heartbeat_file = "` + file + `"`, `heartbeat_env = "BEAT"`, `heartbeat_command = ["cat", "` + file + `"]`,
	} {
		l := newTestLoader()
		l.Environ = append(os.Environ(), "BEAT="+address)
		a, err := l.Load(writeConfig(t, smallConfig+"[schedule]\n"+schedule+"\n"))
		if err != nil {
			t.Errorf("%s: %v", schedule, err)
			continue
		}
		if got, err := a.Heartbeat.Address(t.Context()); got != address || err != nil {
			t.Errorf("%s: got %q, %v", schedule, got, err)
		}
		if got := l.Secrets.Redact("Get /fqOOd6-F4MMNuCEnzTU01w/agent/fail of " + address); got != "Get ***/fail of ***" {
			t.Errorf("%s: shown: %s", schedule, got)
		}
	}
	if a, err := newTestLoader().Load(writeConfig(t, smallConfig)); err != nil || a.Heartbeat != nil {
		t.Errorf("without one: %v, %v", a.Heartbeat, err)
	}
}
