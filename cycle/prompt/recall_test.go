package prompt

import (
	"fmt"
	"strings"
	"testing"
)

// TestRecall checks which exchanges are chosen for a room, and that they are in
// their order. Each exchange here takes as much of the room as any other, but for
// the long one.
func TestRecall(t *testing.T) {
	texts := func(words ...string) []*PastExchange { // newest first, as Recall takes them
		var all []*PastExchange
		for _, w := range words {
			all = append(all, NewPastExchange(Exchange{Message: ExchangeText{Text: fmt.Sprintf("%-9s", w)}}))
		}
		return all
	}
	each := texts("one")[0].size()
	for name, c := range map[string]struct {
		texts    []*PastExchange
		room     int  // of so many exchanges
		short    bool // by one byte
		question string
		want     string // with single spaces
	}{
		"all of them, oldest first": {
			texts: texts("five", "four", "three"), room: 3, want: "three four five",
		},
		"the newest": {
			texts: texts("five", "four", "three", "two", "one"), room: 2, want: "four five",
		},
		"half of the room for the newest, half for the related": {
			texts: texts("six", "five", "four", "red", "two", "red one"), room: 4, question: "red?",
			want: "red one (1 left out) red (1 left out) five six",
		},
		"the best of the related": {
			texts: texts("six", "five", "four", "red", "two", "red door"), room: 2, question: "red door",
			want: "red door (4 left out) six",
		},
		"what is related and new is there once": {
			texts: texts("red", "five", "four", "three", "two"), room: 3, question: "red", want: "four five red",
		},
		"nothing related": {
			texts: texts("three", "two", "one"), room: 2, question: "zanzibar", want: "two three",
		},
		"the oldest left out are not mentioned": {
			texts: texts("two", "one", "zero"), room: 1, want: "two",
		},
		"the newest end at the first that does not fit": {
			texts: append(append(texts("six"), texts(strings.Repeat("x", 5*each))...), texts("five", "red c", "red b", "red a", "two", "one")...),
			room:  4, question: "red", want: "red a red b red c (2 left out) six",
		},
		"too little room": {texts: texts("one"), room: 1, short: true},
		"no room":         {texts: texts("one")},
		"no texts":        {room: 10, question: "red"},
	} {
		t.Run(name, func(t *testing.T) {
			room := c.room * each
			if c.short {
				room--
			}
			var words []string
			for _, r := range Recall(c.texts, room, c.question) {
				if r.Skipped > 0 {
					words = append(words, fmt.Sprintf("(%d left out)", r.Skipped))
				}
				words = append(words, strings.TrimSpace(r.message.Text))
			}
			if got := strings.Join(words, " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
