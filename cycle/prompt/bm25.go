package prompt

import (
	"cmp"
	"math"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/order"
)

// The usual parameters of BM25, which ranks texts by the words that they share with a question
// (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009).
const (
	rankK1 = 1.2  // how soon further occurrences stop counting
	rankB  = 0.75 // how much length counts against a text
)

// terms are the words of a question, numbered.
type terms map[string]int

// termsOf returns the words of the texts, up to a limit: the beginning of a long question
// suffices.
func termsOf(texts ...string) terms {
	const most = 256
	t := terms{}
	for _, text := range texts {
		eachWord(text, func(word []byte) {
			if _, known := t[string(word)]; !known && len(t) < most {
				t[string(word)] = len(t)
			}
		})
	}
	return t
}

// Ranking ranks texts by the words that they share with a question. For each text it stores only
// the counts of the question's words.
type Ranking struct {
	asked terms
	// Common includes the words that occur in more than half of the texts. Without it, a vague
	// question ("go on") matches no text.
	Common bool

	texts, words int
	in           []int // number of texts with a term, by the term's number
	hits         []hit
	often        []int // scratch space of Add: occurrences of each term in the text, by the term's number
}

// NewRanking returns a ranking by the words of a question.
func NewRanking(question ...string) *Ranking {
	asked := termsOf(question...)
	return &Ranking{asked: asked, in: make([]int, len(asked)), often: make([]int, len(asked))}
}

// Empty reports whether the question has no words.
func (r *Ranking) Empty() bool { return len(r.asked) == 0 }

// hit is a text with at least one of the terms.
type hit struct {
	id    int // from Add
	words int // length of the text in words
	has   []count
}

// count is the number of occurrences of a term in a text.
type count struct{ term, often int }

// Add adds a text, and reports whether it contains any of the question's words.
func (r *Ranking) Add(id int, text string) bool {
	h := hit{id: id}
	clear(r.often)
	eachWord(text, func(word []byte) {
		h.words++
		if n, asked := r.asked[string(word)]; asked {
			r.often[n]++
		}
	})
	r.texts++
	r.words += h.words
	for n, often := range r.often {
		if often > 0 {
			h.has = append(h.has, count{n, often})
			r.in[n]++
		}
	}
	if h.has == nil {
		return false
	}
	r.hits = append(r.hits, h)
	return true
}

// Best returns the ids of the texts that share words with the question, best first. Equal texts
// stay in the order of Add.
func (r *Ranking) Best() []int {
	score := map[int]float64{}
	var found []int
	for _, h := range r.hits {
		if s := r.score(h); s > 0 {
			score[h.id] = s
			found = append(found, h.id)
		}
	}
	order.Stable(found, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	return found
}

func (r *Ranking) score(h hit) float64 {
	usual := max(1, float64(r.words)/float64(r.texts))
	sum := 0.0
	for _, c := range h.has { // in a fixed order, because a sum of floats depends on it
		often := float64(c.often)
		sum += r.weight(c.term) * often * (rankK1 + 1) / (often + rankK1*(1-rankB+rankB*float64(h.words)/usual))
	}
	return sum
}

// weight returns the weight of a term. The more texts contain the term, the lower its weight.
func (r *Ranking) weight(n int) float64 {
	odds := (float64(r.texts-r.in[n]) + 0.5) / (float64(r.in[n]) + 0.5)
	if r.Common {
		return math.Log(1 + odds)
	}
	return max(0, math.Log(odds))
}

// maxWord limits the compared part of a word, in bytes.
const maxWord = 64

// eachWord calls f with each word of a text, in lower case. A word is a run of letters and
// digits. In a script without spaces, each character is a word. f must not keep the bytes.
func eachWord(text string, f func(word []byte)) {
	var buf [maxWord + utf8.UTFMax]byte
	word := buf[:0]
	end := func() {
		if len(word) > 0 {
			f(word)
			word = buf[:0]
		}
	}
	for _, r := range text {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			if len(word) < maxWord {
				word = append(word, byte(r))
			}
		case 'A' <= r && r <= 'Z':
			if len(word) < maxWord {
				word = append(word, byte(r)+'a'-'A')
			}
		case r < utf8.RuneSelf:
			end()
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end()
			word = utf8.AppendRune(word, r)
			end()
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			if len(word) < maxWord {
				word = utf8.AppendRune(word, unicode.ToLower(r))
			}
		default:
			end()
		}
	}
	end()
}
