package setup

import "testing"

// TestPresetOfAddress checks which domains have a preset.
func TestPresetOfAddress(t *testing.T) {
	for address, want := range map[string]string{
		"a@gmail.com": "gmail", "a@GoogleMail.com": "gmail", "a@fastmail.fm": "fastmail", "a@hotmail.com": "outlook",
		"a@example.com": "", "gmail.com@example.com": "",
	} {
		if got := presetOf(address); got != want {
			t.Errorf("presetOf(%s) = %q, want %q", address, got, want)
		}
	}
}
