package config

import (
	"strings"
	"testing"
	"time"
)

// TestFleetSettings checks the seat of an agent on several hosts, and its defaults.
func TestFleetSettings(t *testing.T) {
	base := strings.Replace(natsMesh, "PEER", peerKey, 1)
	if a := mustLoad(t, base); a.Seat != nil || a.Store.Arbiter != nil || a.Schedule.EveryMinute {
		t.Errorf("without [fleet]: %+v", a.Seat)
	}
	s := mustLoad(t, base+"[fleet]\n").Seat
	if s == nil || s.Host == "" || s.Lease != 150*time.Second || !s.Auto {
		t.Errorf("defaults: %+v", s)
	}
	a := mustLoad(t, base+"[fleet]\nhost = \"alpha\"\nlease = \"1m\"\nauto = false\n")
	if s := a.Seat; s.Host != "alpha" || s.Lease != time.Minute || s.Auto || a.Store.Arbiter != s || !a.Schedule.EveryMinute || !a.Policy.Fleet {
		t.Errorf("%+v", s)
	}
}

// TestFleetErrors checks that each error names the key and the line.
func TestFleetErrors(t *testing.T) {
	base := strings.Replace(natsMesh, "PEER", peerKey, 1)
	for _, test := range []struct{ text, want string }{
		{base + "[fleet]\nhost = \"Alpha 1\"\n", `:\d+: fleet.host: "Alpha 1" is not a host name: use at most 63 of a-z`},
		{base + "[fleet]\nhost = \"a.b\"\n", `fleet.host: "a.b" is not a host name`},
		{base + "[fleet]\nlease = \"29s\"\n", `:\d+: fleet.lease: 29s is shorter than 30s`},
		{base + "[fleet]\nlease = \"soon\"\n", `fleet.lease`},
		{base + "[fleet]\nauto = \"no\"\n", `fleet.auto`},
		{base + "[fleet]\nhots = \"alpha\"\n", `hots`},
		{smallConfig + "[fleet]\n", `:\d+: fleet: needs a mesh over NATS: set url in \[mesh\]`},
		{smallConfig + "[mesh]\nurl = \"http://127.0.0.1:8801\"\n[fleet]\n", `fleet: needs a mesh over NATS`},
	} {
		wantError(t, test.text, test.want, "")
	}
}
