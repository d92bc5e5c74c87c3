package secret

import (
	"strings"
	"testing"
)

// TestQuotedForms checks that all quoted forms of a secret that needs no quoting are the secret itself,
// and that those of another one are among its disguises.
func TestQuotedForms(t *testing.T) {
	same := 0
	for r := rune(0); r < 0x180; r++ {
		secret := "canary" + string(r) + "4711"
		if needsNoQuoting(secret) {
			same++
			for _, form := range quoted(secret) {
				if form != secret {
					t.Errorf("%q is quoted as %s, which is not redacted", secret, form)
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
