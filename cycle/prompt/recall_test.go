package prompt

import (
	"fmt"
	"strings"
	"testing"
)

// TestRecall checks which texts are chosen for a room, and that they are in
// their order. Each text here takes ten bytes of the room.
func TestRecall(t *testing.T) {
	texts := func(words ...string) []string { // newest first, as Recall takes them
		for i, w := range words {
			words[i] = fmt.Sprintf("%-9s", w)
		}
		return words
	}
	for name, c := range map[string]struct {
		texts    []string
		room     int
		question string
		want     string // with single spaces
	}{
		"all of them, oldest first": {
			texts: texts("five", "four", "three"), room: 30, want: "three four five",
		},
		"the newest": {
			texts: texts("five", "four", "three", "two", "one"), room: 20, want: "four five",
		},
		"half of the room for the newest, half for the related": {
			texts: texts("six", "five", "four", "red", "two", "red one"), room: 40, question: "red?",
			want: "red one (1 left out) red (1 left out) five six",
		},
		"the best of the related": {
			texts: texts("six", "five", "four", "red", "two", "red door"), room: 20, question: "red door",
			want: "red door (4 left out) six",
		},
		"what is related and new is there once": {
			texts: texts("red", "five", "four", "three", "two"), room: 30, question: "red", want: "four five red",
		},
		"nothing related": {
			texts: texts("three", "two", "one"), room: 20, question: "zanzibar", want: "two three",
		},
		"the oldest left out are not mentioned": {
			texts: texts("two", "one", "zero"), room: 10, want: "two",
		},
		"the newest end at the first that does not fit": {
			texts: append(append(texts("six"), strings.Repeat("x", 50)), texts("five", "red c", "red b", "red a", "two", "one")...),
			room:  40, question: "red", want: "red a red b red c (2 left out) six",
		},
		"too little room": {texts: texts("one"), room: 9},
		"no room":         {texts: texts("one")},
		"no texts":        {room: 100, question: "red"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Recall(c.texts, c.room, c.question)
			if got := strings.Join(strings.Fields(got), " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
