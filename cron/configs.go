package cron

import (
	"bytes"
	"slices"
	"strings"
)

// Configs returns the paths of the config files in the agents' lines of table, in order and
// without duplicates. The files may no longer exist.
func Configs(table []byte) []string {
	var all []string
	for line := range bytes.Lines(table) {
		agent, found := agentOf(string(line))
		if !found || !isOurs(line, agent) {
			continue
		}
		_, rest, found := strings.Cut(string(line), " --config '")
		if path, ok := unquote(rest); found && ok && !slices.Contains(all, path) {
			all = append(all, path)
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
