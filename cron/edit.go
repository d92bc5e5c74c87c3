package cron

import "bytes"

// tag returns the text that ends the line of agent. The line is found by it.
func tag(agent string) string { return " # agentstateloop " + agent }

// Find returns the lines of agent in table, without their newlines. These are
// the jobs that end in " # agentstateloop HANDLE", with exactly that handle.
//
//   - Blanks and a carriage return after the handle are ignored. An editor may
//     leave them, and we can repair the line.
//   - A job begins with a digit, "*" or "@", after optional blanks. A line that
//     was commented out is therefore a comment of the user: it stays, and Set
//     adds a new line. The uninstall command removes the line permanently.
func Find(table []byte, agent string) []string {
	var found []string
	for line := range bytes.Lines(table) {
		if isOurs(line, agent) {
			found = append(found, string(bytes.TrimSuffix(line, []byte("\n"))))
		}
	}
	return found
}

// Set returns table with line, from [Job.Line], as agent's only line. It replaces
// the agent's first line, or is appended. Every other line stays byte-identical
// and in its order, except that a last line without a newline gets one if ours
// follows it. Set does not modify table.
func Set(table []byte, agent, line string) []byte {
	edited := make([]byte, 0, len(table)+len(line)+2)
	placed := false
	for old := range bytes.Lines(table) {
		switch {
		case !isOurs(old, agent):
			edited = append(edited, old...)
		case !placed:
			edited = append(edited, line+"\n"...)
			placed = true
		}
	}
	if placed {
		return edited
	}
	return append(withNewline(edited), line+"\n"...)
}

// Unset returns table without agent's lines. Every other byte stays. Unset does
// not modify table.
func Unset(table []byte, agent string) []byte {
	edited := make([]byte, 0, len(table))
	for line := range bytes.Lines(table) {
		if !isOurs(line, agent) {
			edited = append(edited, line...)
		}
	}
	return edited
}

// withNewline returns table with a newline at its end, or an empty table as it is.
func withNewline(table []byte) []byte {
	if len(table) == 0 || bytes.HasSuffix(table, []byte("\n")) {
		return table
	}
	return append(bytes.Clone(table), '\n')
}

func isOurs(line []byte, agent string) bool {
	if !bytes.HasSuffix(bytes.TrimRight(line, " \t\r\n"), []byte(tag(agent))) {
		return false
	}
	line = bytes.TrimLeft(line, " \t")
	first := line[0]
	return first == '*' || first == '@' || '0' <= first && first <= '9'
}
