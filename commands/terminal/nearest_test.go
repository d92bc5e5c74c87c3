package terminal

import "testing"

func TestNearest(t *testing.T) {
	words := []string{"poll", "nudge", "status", "handle"}
	for word, want := range map[string]string{
		"pol": "poll", "polll": "poll", "nugde": "nudge", "handel": "handle", "x": "", "completely": "",
	} {
		if got := Nearest(word, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
