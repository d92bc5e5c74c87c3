package prompt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRankingWords checks word boundaries, and which words count as the same.
func TestRankingWords(t *testing.T) {
	long := strings.Repeat("x", maxWord)
	for text, want := range map[string]string{
		"":                      "",
		"?! -- \n\t":            "",
		"The red DOOR":          "the red door",
		"it's v2.1, re-opened":  "it s v2 1 re opened",
		"Straße ÜBER naïve":     "straße über naïve",
		"नमस्ते":                "नमस्ते", // its vowel signs are part of the word
		"日本語 text":              "日 本 語 text",
		"abc漢def":               "abc 漢 def",
		"٣ 42":                  "٣ 42",
		long + "yz":             long,
		"broken \xff\xfe bytes": "broken bytes",
		"a\x00b":                "a b",
		"“quoted” – dashes…":    "quoted dashes",
	} {
		var words []string
		eachWord(text, func(word []byte) { words = append(words, string(word)) })
		if got := strings.Join(words, " "); got != want {
			t.Errorf("the words of %q are %q, want %q", text, got, want)
		}
	}
}

// TestRankingBest checks which texts a question finds, and in which order.
func TestRankingBest(t *testing.T) {
	for name, c := range map[string]struct {
		question string
		common   bool
		texts    []string
		want     []int
	}{
		"what shares no word is not found": {
			question: "red", texts: []string{"a red door", "a blue door", "rain"}, want: []int{0},
		},
		"more of the words are better": {
			question: "red door", texts: []string{"the red car", "rain", "the red door", "sun", "snow"}, want: []int{2, 0},
		},
		"a rare word counts more": {
			question: "rain zanzibar", texts: []string{"rain today", "rain in May", "hail", "to zanzibar", "sun", "fog"}, want: []int{3, 0, 1},
		},
		"more occurrences are better": {
			question: "red", texts: []string{"red blue blue", "red red blue", "x y z", "x y z", "x y z"}, want: []int{1, 0},
		},
		"a short text is better": {
			question: "red", texts: []string{"red and a lot of other words", "red and", "x", "y", "z"}, want: []int{1, 0},
		},
		"among equals the first is first": {
			question: "red", texts: []string{"x", "red b", "y", "red a", "z"}, want: []int{1, 3},
		},
		"a word of most texts finds nothing": {
			question: "go on", texts: []string{"go on", "go on now", "go"},
		},
		"a word of most texts does not count against a text": {
			question: "red go", texts: []string{"red go", "red up", "go", "go", "go", "go", "x"}, want: []int{0, 1},
		},
		"unless common words count": {
			question: "go", common: true, texts: []string{"go on", "stay", "go"}, want: []int{2, 0},
		},
		"case and punctuation do not matter": {
			question: "Where is ZANZIBAR's key?", texts: []string{"zanzibar", "x", "y"}, want: []int{0},
		},
		"an empty question": {texts: []string{"red", "x", "y"}},
		"no texts":          {question: "red"},
		"empty texts":       {question: "red", common: true, texts: []string{"", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRanking(c.question)
			r.Common = c.common
			for i, text := range c.texts {
				r.Add(i, text)
			}
			if got := r.Best(); !slices.Equal(got, c.want) {
				t.Errorf("the best are %v, want %v", got, c.want)
			}
		})
	}
}

// TestRankingAdd checks that Add reports whether a text shares a word, and that Best
// returns the ids that it was given.
func TestRankingAdd(t *testing.T) {
	r := NewRanking("red", "door")
	for id, text := range map[int]string{70: "the door", -1: "the window", 12: ""} {
		if got, want := r.Add(id, text), id == 70; got != want {
			t.Errorf("Add(%d, %q) = %v, want %v", id, text, got, want)
		}
	}
	if got := r.Best(); !slices.Equal(got, []int{70}) {
		t.Errorf("the best are %v, want 70", got)
	}
}

// TestRankingKeepsOrderOfEquals checks that many equally good texts stay in their order.
func TestRankingKeepsOrderOfEquals(t *testing.T) {
	r := NewRanking("red")
	r.Common = true
	var good, better []int
	for i := range 50 {
		if i%3 == 0 {
			r.Add(i, "red red")
			better = append(better, i)
		} else {
			r.Add(i, "red sun")
			good = append(good, i)
		}
	}
	if got, want := r.Best(), slices.Concat(better, good); !slices.Equal(got, want) {
		t.Errorf("the best are %v, want %v", got, want)
	}
}

// TestRankingOfEmptyQuestion checks that a question without a word is empty.
func TestRankingOfEmptyQuestion(t *testing.T) {
	for question, want := range map[string]bool{"": true, "?!": true, "a": false, "漢": false} {
		if got := NewRanking(question).Empty(); got != want {
			t.Errorf("NewRanking(%q).Empty() = %v, want %v", question, got, want)
		}
	}
}

// TestRankingOfLongQuestion checks that the beginning of a long question counts, and its
// end does not.
func TestRankingOfLongQuestion(t *testing.T) {
	var question strings.Builder
	for i := range 300 {
		fmt.Fprintf(&question, "w%d w%[1]d ", i)
	}
	r := NewRanking(question.String())
	for word, want := range map[string]bool{"w0": true, "w255": true, "w256": false, "w299": false} {
		if got := r.Add(0, word); got != want {
			t.Errorf("the question has %s: %v, want %v", word, got, want)
		}
	}
}
