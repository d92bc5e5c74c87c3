package config

import (
	"os"
	"strings"
	"testing"
)

// TestHeartbeatErrors checks that each error of the heartbeat names the line and the key,
// and never the address.
func TestHeartbeatErrors(t *testing.T) {
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
		text := wantError(t, smallConfig+"[schedule]\n"+test.schedule+"\n", test.want, test.hint)
		if strings.Contains(text, "KEY-1234") {
			t.Errorf("the address is in %q", text)
		}
	}
}

// TestHeartbeatAddress checks that the address is read from each source, and redacted from
// then on.
func TestHeartbeatAddress(t *testing.T) {
	const address = "https://hc-ping.com/fqOOd6-F4MMNuCEnzTU01w/agent"
	file := writeFile(t, "heartbeat", address+"\n")
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
	if a := mustLoad(t, smallConfig); a.Heartbeat != nil {
		t.Errorf("without an address the heartbeat is %v", a.Heartbeat)
	}
}
