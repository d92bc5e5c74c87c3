package state

// MaxHandle is the most characters that a handle may have.
const MaxHandle = 32

// ValidHandle reports whether s is a handle, the name of an agent: a lower-case
// letter or digit, followed by at most 31 lower-case letters, digits and hyphens
// (docs/design.md, "Glossary").
func ValidHandle(s string) bool {
	if s == "" || len(s) > MaxHandle || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
