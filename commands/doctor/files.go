package doctor

import (
	"context"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// filesCheck reads the files that the state names, and compares them with their sums.
type filesCheck struct{ agent *cycle.Agent }

func (c filesCheck) run(context.Context) []Finding {
	const name = "files"
	n, damaged, err := c.agent.CheckFiles()
	switch {
	case err != nil:
		return []Finding{failure(name, "see docs/files.md", err)}
	case len(damaged) == 0:
		return []Finding{good(name, "%s of messages and mails, as they were kept", terminal.Count(n, "file"))}
	}
	var found []Finding
	for _, e := range damaged[:min(len(damaged), maxBreaks)] {
		found = append(found, bad(Error, name, "when it is needed, a poll makes or fetches it again, or tells you; check the disk if it was not you", "%v", e))
	}
	if more := len(damaged) - len(found); more > 0 {
		found = append(found, bad(Error, name, "", "%s more", terminal.Count(more, "file")))
	}
	return found
}
