package state

// MaxHandle is the most characters that a handle may have.
const MaxHandle = 32

// HandlePattern is the rule of ValidHandle as a regular expression, for errors.
const HandlePattern = "[a-z0-9][a-z0-9-]{0,31}"

// ValidHandle reports whether s is a handle, the name of an agent: a lower-case
// letter or digit, followed by at most 31 lower-case letters, digits and hyphens
// (docs/design.md, "Glossary").
func ValidHandle(s string) bool {
	if s == "" || len(s) > MaxHandle || s[0] == '-' {
		return false
	}
	for _, r := range s {
		if !HandleRune(r) {
			return false
		}
	}
	return true
}

// HandleRune reports whether r may stand in a handle.
func HandleRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-'
}
