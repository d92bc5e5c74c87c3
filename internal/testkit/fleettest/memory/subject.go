package memory

import "strings"

// matches reports whether a pattern, in which * stands for one token and > for one or
// more at the end, covers a subject.
func matches(pattern, subject string) bool {
	for {
		if pattern == ">" {
			return subject != ""
		}
		want, morePattern, manyWanted := strings.Cut(pattern, ".")
		have, moreSubject, manyThere := strings.Cut(subject, ".")
		if want != have && want != "*" || have == "" || manyWanted != manyThere {
			return false
		}
		if !manyWanted {
			return true
		}
		pattern, subject = morePattern, moreSubject
	}
}

// valid reports whether a subject, or a pattern, has no empty token and no blank.
func valid(subject string) bool {
	return subject != "" && !strings.HasPrefix(subject, ".") && !strings.HasSuffix(subject, ".") && !strings.Contains(subject, "..")
}
