package cron

import "bytes"

// tag ends the line of agent, and is what it is found by.
func tag(agent string) string { return " # agentstateloop " + agent }

// Find returns the lines of table that are agent's, without their newlines:
// ours to replace and remove. They are the jobs that end in
// " # agentstateloop HANDLE", with that handle exactly.
//
//   - Blanks and a carriage return after the handle are overlooked: an editor
//     may leave them, and the line is still ours to repair.
//   - A job begins with a digit, "*" or "@", after blanks. So a line that was
//     commented out is a comment of the user's, not our line: it is kept, and
//     Set adds a new one. To be rid of the line for good there is uninstall.
func Find(table []byte, agent string) []string {
	var found []string
	for line := range bytes.Lines(table) {
		if isOurs(line, agent) {
			found = append(found, string(bytes.TrimSuffix(line, []byte("\n"))))
		}
	}
	return found
}

// Set returns table with line, as made by [Job.Line], as agent's only line: in
// the place of the first one there is, else at the end. Every other line stays
// byte-identical and in its order. The only byte it may add to what is not
// ours is the newline that a last line lacks when ours follows it. table
// itself is not written to.
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

// Unset returns table without agent's lines; every other byte stays. table
// itself is not written to.
func Unset(table []byte, agent string) []byte {
	edited := make([]byte, 0, len(table))
	for line := range bytes.Lines(table) {
		if !isOurs(line, agent) {
			edited = append(edited, line...)
		}
	}
	return edited
}

// withNewline returns table with a newline at its end, unless it is empty.
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
