package doctor

import (
	"context"

	"agentstateloop/commands/terminal"
	"agentstateloop/state/store"
)

// maxBreaks limits the number of reported breaks.
const maxBreaks = 5

// historyCheck verifies the chain of the history. It reads the whole history.
type historyCheck struct{ store *store.Store }

func (c historyCheck) run(context.Context) []Finding {
	const name = "history"
	a, err := c.store.Audit()
	if err != nil {
		return []Finding{failure(name, "see docs/files.md", err)}
	}
	return auditFindings(a)
}

// auditFindings returns the findings of an audit.
func auditFindings(a store.Audit) []Finding {
	const name = "history"
	switch {
	case len(a.Breaks) == 0 && a.Lines == 0:
		return []Finding{bad(Info, name, "", "its hash chain starts with the next line")}
	case len(a.Breaks) == 0:
		return []Finding{good(name, "%s, unchanged since the chain started; head %v", terminal.Count(a.Lines, "line"), a.Head)}
	}
	var found []Finding
	for _, b := range a.Breaks[:min(len(a.Breaks), maxBreaks)] {
		found = append(found, bad(Error, name, "unless you edited it yourself, do not trust the agent's actions after the last mail that `agentstateloop history --verify MAIL` accepts", "%v", b))
	}
	if more := len(a.Breaks) - len(found); more > 0 {
		found = append(found, bad(Error, name, "", "%s more", terminal.Count(more, "place")))
	}
	return found
}
