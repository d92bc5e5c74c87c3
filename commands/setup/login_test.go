package setup

import (
	"strings"
	"testing"
)

// TestPasswordPromptNamesUser checks that the prompt names the user name if it differs from the
// address.
func TestPasswordPromptNamesUser(t *testing.T) {
	for want, m := range map[string]mailPart{
		"the password for a@example.org (":    {address: "a@example.org"},
		"the password for u (":                {address: "a@example.org", username: "u"},
		"the app password for a@gmail.com (n": {address: "a@gmail.com", preset: preset{secret: "app password"}},
	} {
		if got := m.passwordPrompt(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
