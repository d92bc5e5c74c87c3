package cron

import (
	"slices"
	"testing"
	"time"
)

// TestConfigPaths checks that the configurations are found in the lines of jobs, with any characters in
// their paths.
func TestConfigPaths(t *testing.T) {
	paths := []string{"/a/agent.toml", "/it's/100%/agent.toml", "/with blank/'%'.toml", `/back\slash/x.toml`, "/a --config 'b'/x.toml"}
	table := "# agentstateloop goulard3120\n17 * * * * run-parts /etc/cron.hourly\n"
	for i, path := range paths {
		j := Job{Agent: "agent" + string(rune('a'+i)), Binary: "/usr/bin/agent state loop", Config: path, Interval: time.Minute}
		if i%2 == 0 {
			j.Alarm = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
		}
		line, alarm, err := j.Lines()
		if err != nil {
			t.Fatal(err)
		}
		table += line + "\n" + alarm + "\n"
	}
	table += "# * * * * * '/b' --config '/commented/out' poll # agentstateloop out\n" +
		"* * * * * '/b' --config '/cut poll # agentstateloop cut\n" +
		"* * * * * '/b' --config '/other' poll # somebody's\n"
	var got []string
	for _, p := range PolledBy([]byte(table)) {
		if p.Config != "" {
			got = append(got, p.Config)
		}
	}
	if !slices.Equal(got, paths) {
		t.Errorf("%q, want %q", got, paths)
	}
	if got := PolledBy(nil); len(got) > 0 {
		t.Errorf("%q from an empty table", got)
	}
}

// TestPolledBy lists the agents in a table, each with its configuration, and ignores comments and
// other lines.
func TestPolledBy(t *testing.T) {
	table := "17 3 * * * backup # not agentstateloop's\n" +
		"*/30 * * * * '/a' --config '/a.toml' poll # agentstateloop one\n" +
		"1 2 3 4 * '/a' --config '/a.toml' poll # agentstateloop one alarm\n" +
		"# */30 * * * * '/a' --config '/b.toml' poll # agentstateloop two\n" +
		"*/30 * * * * edited # agentstateloop three\n"
	want := []Polled{{Agent: "one", Config: "/a.toml"}, {Agent: "three"}}
	if got := PolledBy([]byte(table)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
