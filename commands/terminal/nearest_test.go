package terminal

import "testing"

// TestNearestWord checks which word is suggested for a wrong one.
func TestNearestWord(t *testing.T) {
	words := []string{"poll", "nudge", "status", "handle", "pull"}
	for word, want := range map[string]string{
		"hxxxle": "handle", "hxxxxe": "", "handlexxx": "handle", "handlexxxx": "", // half of the word, and at most three
		"pol": "poll", "polll": "poll", "nugde": "nudge", "handel": "handle", "pill": "poll" /* and not "pull" after it */, "x": "", "completely": "",
	} {
		if got := Nearest(word, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := Nearest("malt", []string{"poll", "salt", "halt"}); got != "salt" {
		t.Errorf("of two equally near words it takes %q, not the first", got)
	}
}

// TestEditDistance counts the changes between two words. The exchange of two neighbours is one
// change.
func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"poll", "poll", 0},
		{"pol", "poll", 1}, {"polll", "poll", 1}, {"pill", "poll", 1},
		{"plol", "poll", 1}, {"opll", "poll", 1}, {"hatl", "halt", 1}, {"nugde", "nudge", 1}, {"abcd", "badc", 2},
		{"ab", "cd", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2},
	} {
		if got := edits(test.a, test.b); got != test.want {
			t.Errorf("edits(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
		if got := edits(test.b, test.a); got != test.want {
			t.Errorf("edits(%q, %q) = %d, want %d", test.b, test.a, got, test.want)
		}
	}
}
