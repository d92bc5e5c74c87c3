package terminal

import (
	"cmp"
	"strings"
)

// problem is a flag that a script has to set, or to set otherwise.
type problem struct {
	missing     bool   // false: wrong
	text, alone string // as one of several, and as the only one
	hint        string // of the only one; "": a general one
}

// Wrong reports a value of a flag that is wrong. At a terminal it is a UsageError at
// once; without one it becomes one of the Problems, so that a script hears of all of
// them together, and the error is nil.
func (a *Asker) Wrong(hint, format string, args ...any) error {
	err := Usagef(hint, format, args...)
	if a.CanAsk() {
		return err
	}
	text := strings.TrimSuffix(err.Error()+"; "+hint, "; ")
	a.problems = append(a.problems, problem{text: text, alone: err.Error(), hint: hint})
	return nil
}

// Missing notes that flags are missing, one of which would answer a question.
func (a *Asker) Missing(flags, question string) {
	a.problems = append(a.problems, problem{
		missing: true, text: flags + " is missing: " + question,
		alone: flags + " is missing, and without a terminal it cannot be asked for: " + question,
	})
}

// Problems returns a UsageError with everything that is missing or wrong, or nil.
func (a *Asker) Problems() error {
	const hint = "see " + Program + " init --help"
	if len(a.problems) == 0 {
		return nil
	}
	if len(a.problems) == 1 {
		return Usagef(cmp.Or(a.problems[0].hint, hint), "%s", a.problems[0].alone)
	}
	missing := 0
	var lines strings.Builder
	for _, p := range a.problems {
		if p.missing {
			missing++
		}
		lines.WriteString("\n  " + p.text)
	}
	wrong := len(a.problems) - missing
	switch {
	case wrong == 0:
		return Usagef(hint, "%s missing, and without a terminal nothing can be asked for:%s", Count(missing, "value"), lines.String())
	case missing == 0:
		return Usagef(hint, "%s wrong:%s", Count(wrong, "value"), lines.String())
	}
	return Usagef(hint, "%s missing and %d wrong, and without a terminal nothing can be asked for:%s", Count(missing, "value"), wrong, lines.String())
}
