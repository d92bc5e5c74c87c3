package state

// MaxHandle is the maximum length of a handle, in characters.
const MaxHandle = 32

// HandleRule is the rule of ValidHandle in words, for errors.
const HandleRule = "a handle has 1 to 32 lower-case letters, digits and hyphens, and begins with no hyphen"

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

// HandleRune reports whether r is allowed in a handle.
func HandleRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-'
}
