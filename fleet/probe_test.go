package fleet

import (
	"slices"
	"strings"
	"testing"
)

// TestProbesOfRights checks that each right to publish is tried with a subject that it covers, except for
// the right to announce turns, and that no right covers the subjects that must be refused.
func TestProbesOfRights(t *testing.T) {
	rights := Rights("goulard3120").Publish
	all := probes("goulard3120", probe{right: haltSubject, subject: haltSubject, body: []byte(`{"halted":false}`)})
	for _, right := range rights {
		n := slices.IndexFunc(all, func(p probe) bool { return p.right == right })
		if right == taskSubject("goulard3120") {
			if n >= 0 {
				t.Errorf("%s is tried", right)
			}
			continue
		}
		if n < 0 || !covers(right, all[n].subject) {
			t.Errorf("%s is not tried", right)
		}
	}
	for _, p := range all {
		covered := slices.ContainsFunc(rights, func(right string) bool { return covers(right, p.subject) })
		if covered != (p.right != "") {
			t.Errorf("%s: covered by a right is %v", p.subject, covered)
		}
		if p.right != "" && !slices.Contains(rights, p.right) {
			t.Errorf("%s is not a right of an agent", p.right)
		}
	}
}

// covers reports whether a NATS pattern matches a subject.
func covers(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, w := range want {
		switch {
		case w == ">":
			return len(have) > i
		case i >= len(have) || w != "*" && w != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}
