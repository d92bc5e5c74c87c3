package cron

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	ours    = `*/30 * * * * '/abs/agentstateloop' --config '/abs/agent.toml' poll --if-due --quiet # agentstateloop goulard3120`
	ringing = `12 14 22 11 * '/abs/agentstateloop' --config '/abs/agent.toml' poll --if-due --quiet # agentstateloop goulard3120 alarm`

	theirs = `*/1 * * * * '/abs/agentstateloop' --config '/b.toml' poll --if-due --quiet # agentstateloop goulard31200`
)

func TestSetAndUnset(t *testing.T) {
	old := strings.Replace(ours, "*/30", "*/1", 1)
	for _, tt := range []struct{ name, table, set, unset string }{
		{"empty", "", ours + "\n", ""},
		{"appended", "A=b\n0 5 * * * backup\n", "A=b\n0 5 * * * backup\n" + ours + "\n", "A=b\n0 5 * * * backup\n"},
		{"in place", "a\n" + old + "\nb\n", "a\n" + ours + "\nb\n", "a\nb\n"},
		{"unchanged", "a\n" + ours + "\nb\n", "a\n" + ours + "\nb\n", "a\nb\n"},
		{"unchanged, no final newline", ours + "\nb", ours + "\nb", "b"},
		{"two: the first place stays", "a\n" + old + "\nb\n" + ours + "\nc\n", "a\n" + ours + "\nb\nc\n", "a\nb\nc\n"},
		{"no final newline", "a\nb", "a\nb\n" + ours + "\n", "a\nb"},
		{"ours with no final newline", "a\n" + old, "a\n" + ours + "\n", "a\n"},
		{"CRLF", "a\r\n" + old + "\r\nb\r\n", "a\r\n" + ours + "\nb\r\n", "a\r\nb\r\n"},
		{"CRLF, appended", "a\r\n", "a\r\n" + ours + "\n", "a\r\n"},
		{"NUL and latin-1", "\x00\xe9\n\xff", "\x00\xe9\n\xff\n" + ours + "\n", "\x00\xe9\n\xff"},
		{"blank lines", "\n\n \n", "\n\n \n" + ours + "\n", "\n\n \n"},
		{"edited by hand", "  @hourly x # agentstateloop goulard3120 \t\n", ours + "\n", ""},
		{"another agent whose handle begins like ours", theirs + "\n", theirs + "\n" + ours + "\n", theirs + "\n"},
		{"another agent whose handle ends like ours", "* * * * * x # agentstateloop x-goulard3120\n", "* * * * * x # agentstateloop x-goulard3120\n" + ours + "\n", "* * * * * x # agentstateloop x-goulard3120\n"},
		{"the tag in the middle", ours + " and more\n", ours + " and more\n" + ours + "\n", ours + " and more\n"},
		{"commented out", "#" + ours + "\n # " + ours + "\n", "#" + ours + "\n # " + ours + "\n" + ours + "\n", "#" + ours + "\n # " + ours + "\n"},
		{"the tag alone is a comment", " # agentstateloop goulard3120\n", " # agentstateloop goulard3120\n" + ours + "\n", " # agentstateloop goulard3120\n"},
		{"an environment line", "X=1 # agentstateloop goulard3120\n", "X=1 # agentstateloop goulard3120\n" + ours + "\n", "X=1 # agentstateloop goulard3120\n"},
		{"no blank before the tag", "* * * * * x# agentstateloop goulard3120\n", "* * * * * x# agentstateloop goulard3120\n" + ours + "\n", "* * * * * x# agentstateloop goulard3120\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := []byte(tt.table)
			if got := Set(table, "goulard3120", ours, ""); string(got) != tt.set {
				t.Errorf("Set:\ngot  %q\nwant %q", got, tt.set)
			}
			if got := Unset(table, "goulard3120"); string(got) != tt.unset {
				t.Errorf("Unset:\ngot  %q\nwant %q", got, tt.unset)
			}
			if string(table) != tt.table {
				t.Errorf("the table given was written to: %q", table)
			}
		})
	}
}

// TestSetAlarmLine checks that both lines change in one edit and keep their positions.
func TestSetAlarmLine(t *testing.T) {
	old := strings.Replace(ours, "*/30", "*/1", 1)
	stale := strings.Replace(ringing, "12 14", "1 2", 1)
	alarmed := "* * * * * x # agentstateloop alarm" // an agent of that name
	for _, tt := range []struct{ name, table, alarm, set string }{
		{"behind our line", "a\n" + old + "\nb\n", ringing, "a\n" + ours + "\n" + ringing + "\nb\n"},
		{"with the line, at the end", "a", ringing, "a\n" + ours + "\n" + ringing + "\n"},
		{"a stale one", "a\n" + stale + "\n" + ours + "\n", ringing, "a\n" + ringing + "\n" + ours + "\n"},
		{"unchanged", ours + "\nb\n" + ringing, ringing, ours + "\nb\n" + ringing + "\n"},
		{"needless", ours + "\nb\n" + ringing + "\nc", "", ours + "\nb\nc"},
		{"doubled", ringing + "\n" + ours + "\nb\n" + stale + "\n", ringing, ringing + "\n" + ours + "\nb\n"},
		{"edited by hand", ours + "\n  @daily x # agentstateloop goulard3120 alarm\t\r\n", ringing, ours + "\n" + ringing + "\n"},
		{"our line is gone", "b\n" + ringing + "\nc\n", ringing, "b\n" + ringing + "\nc\n" + ours + "\n"},
		{"commented out", "#" + ringing + "\n", "", "#" + ringing + "\n" + ours + "\n"},
		{"of an agent named alarm", alarmed + "\n" + ours + "\n", ringing, alarmed + "\n" + ours + "\n" + ringing + "\n"},
		{"of another agent", theirs + " alarm\n", "", theirs + " alarm\n" + ours + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Set([]byte(tt.table), "goulard3120", ours, tt.alarm)
			if string(got) != tt.set {
				t.Errorf("Set:\ngot  %q\nwant %q", got, tt.set)
			}
			if left := Unset(got, "goulard3120"); bytes.Contains(left, []byte("goulard3120\n")) && !bytes.Contains([]byte(tt.table), []byte("#*")) {
				t.Errorf("Unset leaves\n%s", left)
			}
		})
	}
	both := []byte(ours + "\n" + ringing + "\n" + alarmed + "\n")
	if got := append(Find(both, "alarm"), FindAlarm(both, "alarm")...); len(got) != 1 || got[0] != alarmed {
		t.Errorf("the lines of an agent named alarm are %q", got)
	}
	if left := Unset(both, "goulard3120"); string(left) != alarmed+"\n" {
		t.Errorf("Unset leaves %q", left)
	}
}

func TestFindLinesOfAgent(t *testing.T) {
	table := "x\n" + ours + "\r\n" + theirs + "\n" + ours
	if got, want := Find([]byte(table), "goulard3120"), []string{ours + "\r", ours}; !slices.Equal(got, want) {
		t.Errorf("Find = %q, want %q", got, want)
	}
	if got := Find([]byte(table), "goulard312"); got != nil {
		t.Errorf("Find of another agent = %q, want none", got)
	}
}

func TestLargeTable(t *testing.T) {
	table := bytes.Repeat([]byte("# a line of somebody else, 42 bytes long \n"), 1<<20/42)
	set := Set(table, "goulard3120", ours, "")
	if !bytes.HasPrefix(set, table) || len(set) != len(table)+len(ours)+1 {
		t.Error("a table of 1 MB did not keep its bytes")
	}
	if !bytes.Equal(Unset(set, "goulard3120"), table) {
		t.Error("Unset does not return a table of 1 MB")
	}
}

func FuzzEdit(f *testing.F) {
	for _, seed := range []string{"", "a", "a\n" + ours + "\n" + theirs, ours + "\n" + ours, "#" + ours + "\r\n", "\x00\xff\n", ours + " \t\r\nx", "\r" + ours} {
		f.Add([]byte(seed), "goulard3120", false)
		f.Add([]byte(seed), "goulard3", true)
	}
	f.Add([]byte(ours+"\n"+ringing+" \n"+ringing), "goulard3120", true)
	f.Add([]byte(ringing+"\nx"), "alarm", true)
	f.Fuzz(func(t *testing.T, table []byte, agent string, ring bool) {
		job := Job{Agent: agent, Binary: "/b", Config: "/c", Interval: time.Minute}
		if ring {
			job.Alarm = time.Date(2026, 11, 22, 14, 12, 0, 0, time.UTC)
		}
		line, alarm, err := job.Lines()
		if err != nil {
			t.Skip()
		}
		original := bytes.Clone(table)
		set, unset := Set(table, agent, line, alarm), Unset(table, agent)
		if !bytes.Equal(table, original) {
			t.Fatal("the table given was written to")
		}
		if got := Find(set, agent); len(got) != 1 || got[0] != line {
			t.Fatalf("after Set the lines are %q", got)
		}
		if got := FindAlarm(set, agent); ring != (len(got) == 1 && got[0] == alarm) || !ring && got != nil {
			t.Fatalf("after Set the alarm lines are %q", got)
		}
		if got := append(Find(unset, agent), FindAlarm(unset, agent)...); got != nil {
			t.Fatalf("after Unset the lines are %q", got)
		}
		if !bytes.Equal(Set(set, agent, line, alarm), set) || !bytes.Equal(Unset(unset, agent), unset) {
			t.Fatal("a second call changed the table")
		}
		foreign := foreignLines(table, agent)
		if !slices.Equal(foreignLines(unset, agent), foreign) {
			t.Fatal("Unset changed a foreign line")
		}
		// Set may only add a newline to the last foreign line.
		if got := foreignLines(set, agent); !slices.Equal(got, foreign) {
			last := len(foreign) - 1
			foreign[last] += "\n"
			if !slices.Equal(got, foreign) {
				t.Fatal("Set changed a foreign line")
			}
		}
		if len(Find(table, agent))+len(FindAlarm(table, agent)) == 0 && !bytes.Equal(withNewline(Unset(set, agent)), withNewline(table)) {
			t.Fatal("Set and Unset do not return the original table")
		}
	})
}

// foreignLines implements the rule in Find a second time, without isOurs.
func foreignLines(table []byte, agent string) []string {
	var foreign []string
	for _, line := range strings.SplitAfter(string(table), "\n") {
		job := strings.Trim(line, " \t")
		isJob := job != "" && strings.ContainsAny(job[:1], "0123456789*@")
		end, tag := strings.TrimRight(line, " \t\r\n"), " # agentstateloop "+agent
		if line != "" && !(isJob && (strings.HasSuffix(end, tag) || strings.HasSuffix(end, tag+" alarm"))) {
			foreign = append(foreign, line)
		}
	}
	return foreign
}
