package cron

import (
	"bytes"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// tag returns the end of the line of agent's interval, and alarmTag the end of its alarm line.
// We find the lines by these tags. A handle has no blanks, so one tag never ends in another.
func tag(agent string) string { return " # agentstateloop " + agent }

func alarmTag(agent string) string { return tag(agent) + " alarm" }

// Find returns the lines of agent's interval in table, without their newlines. These are the
// jobs that end in " # agentstateloop HANDLE", with exactly that handle.
//
//   - Blanks and a carriage return after the handle are ignored. An editor may
//     leave them, and we can repair the line.
//   - A job begins with a digit, "*" or "@", after optional blanks. A commented-out
//     line is therefore a comment of the user: it stays, and Set adds a new line.
//     The uninstall command removes the line permanently.
func Find(table []byte, agent string) []string { return find(table, tag(agent)) }

// FindAlarm returns the alarm lines of agent, as Find does. They end in " # agentstateloop
// HANDLE alarm".
func FindAlarm(table []byte, agent string) []string { return find(table, alarmTag(agent)) }

func find(table []byte, tag string) []string {
	var found []string
	for line := range bytes.Lines(table) {
		if isJob(line, tag) {
			found = append(found, string(bytes.TrimSuffix(line, []byte("\n"))))
		}
	}
	return found
}

// Set returns table with line and alarm, from [Job.Line] and [Job.AlarmLine], as the only lines
// of agent. Each replaces the first line of its kind. If the table has no such line, Set
// appends line, and puts alarm after line. An empty alarm removes the alarm lines. Every other
// line stays byte-identical and in its order, except that a last line without a newline gets
// one if ours follows it. Set does not modify table.
func Set(table []byte, agent, line, alarm string) []byte {
	edited := make([]byte, 0, len(table)+len(line)+len(alarm)+3)
	place := func(line *string) {
		if *line != "" {
			edited = append(withNewline(edited), *line+"\n"...)
			*line = "" // place it only once
		}
	}
	behind := len(FindAlarm(table, agent)) == 0 // the table has no alarm line to replace
	for old := range bytes.Lines(table) {
		switch {
		case isJob(old, alarmTag(agent)):
			place(&alarm)
		case isJob(old, tag(agent)):
			place(&line)
			if behind {
				place(&alarm)
			}
		default:
			edited = append(edited, old...)
		}
	}
	place(&line)
	place(&alarm)
	return edited
}

// Unset returns table without agent's lines. Every other byte stays. Unset does not modify
// table.
func Unset(table []byte, agent string) []byte {
	edited := make([]byte, 0, len(table))
	for line := range bytes.Lines(table) {
		if !isOurs(line, agent) {
			edited = append(edited, line...)
		}
	}
	return edited
}

// withNewline returns table with a newline at its end. An empty table stays empty.
func withNewline(table []byte) []byte {
	if len(table) == 0 || bytes.HasSuffix(table, []byte("\n")) {
		return table
	}
	return append(bytes.Clone(table), '\n')
}

// isOurs reports whether line is one of agent's lines.
func isOurs(line []byte, agent string) bool {
	return isJob(line, tag(agent)) || isJob(line, alarmTag(agent))
}

// isJob reports whether line is a job that ends in tag.
func isJob(line []byte, tag string) bool {
	if !bytes.HasSuffix(bytes.TrimRight(line, " \t\r\n"), []byte(tag)) {
		return false
	}
	line = bytes.TrimLeft(line, " \t")
	first := line[0]
	return first == '*' || first == '@' || '0' <= first && first <= '9'
}

// Change describes what an edit of the table did, or would do.
type Change struct {
	Before, After []byte // the whole table
	Wrote         bool   // the table was written, and After was read back
	Line          string // the agent's line; "" if it was removed
	Backup        string // path of the backup; "" without a backup
}

// Diff returns the change as a unified diff for people, or "" if both tables are equal. It
// shows foreign lines near ours unmodified.
func (c Change) Diff() string {
	unified := diff.Diff("crontab, installed", c.Before, "crontab, wanted", c.After)
	_, hunks, _ := bytes.Cut(unified, []byte("\n")) // after the line "diff …"
	return string(hunks)
}

// Polled is the handle of an agent that a line or a timer polls, and its config file.
type Polled struct{ Agent, Config string }

// PolledBy returns what the agents' lines of table poll, in order and without duplicates. Config
// is "" if a person has edited it out. The files may no longer exist.
func PolledBy(table []byte) []Polled {
	var all []Polled
	for line := range bytes.Lines(table) {
		agent, found := agentOf(string(line))
		if !found || !isOurs(line, agent) {
			continue
		}
		p := Polled{Agent: agent}
		if _, rest, found := strings.Cut(string(line), " --config '"); found {
			p.Config, _ = unquote(rest)
		}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// agentOf returns the handle in the tag of a line.
func agentOf(line string) (agent string, found bool) {
	at := strings.LastIndex(line, tag(""))
	if at < 0 {
		return "", false
	}
	words := strings.Fields(line[at+len(tag("")):])
	if len(words) == 0 {
		return "", false
	}
	return words[0], true
}

// unquote undoes quote. text begins after the opening quote and may continue after the closing
// quote.
func unquote(text string) (word string, ok bool) {
	var b strings.Builder
	for {
		part, rest, closed := strings.Cut(text, "'")
		if !closed {
			return "", false
		}
		b.WriteString(part)
		switch {
		case strings.HasPrefix(rest, `\''`):
			b.WriteByte('\'')
		case strings.HasPrefix(rest, `\%'`):
			b.WriteByte('%')
		default:
			return b.String(), true
		}
		text = rest[len(`\''`):]
	}
}
