package secret

import (
	"strings"
	"testing"
)

// TestQuotingChangesNothing checks that a secret without a form in quotes has none: all its forms
// in quotes are the secret itself. The forms of another one are among its disguises.
func TestQuotingChangesNothing(t *testing.T) {
	same := 0
	for r := rune(0); r < 0x180; r++ {
		secret := "canary" + string(r) + "4711"
		if needsNoQuoting(secret) {
			same++
			for _, form := range quoted(secret) {
				if form != secret {
					t.Errorf("%q is quoted as %s, but is not looked for", secret, form)
				}
			}
			continue
		}
		for _, form := range quoted(secret) {
			if !strings.Contains(strings.Join(Disguises(secret), "\n"), form) {
				t.Errorf("%q is quoted as %s, which is not among its forms", secret, form)
			}
		}
	}
	if want := 26 + 26 + 10 + len("-_."); same != want {
		t.Errorf("%d characters look the same in all quotes, want %d", same, want)
	}
}
