package main_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// banned are the phrases that we do not write, in no text of the repository,
// and what to write in their place.
var banned = []struct{ phrase, write string }{
	{"is no", "is not a; no such … exists; is missing; not … any more"},
	{"whoever", "the process that …, the agent that …, anybody who …"},
	{"so LONG", "DURATION"},
	{"for else", "because otherwise"},
	{"be it", "whether … or …"},
	{"in vain", "without success"},
	{"anew", "again"},
	{"that is none", "that is not one"},
	{"says whether", "reports whether"},
	{"told of", "informed about, reported to"},
	{"of before", "earlier"},
	{"beside", "next to, besides, as well as, along with"},
	{"belongs into", "belongs in"},
	{"over the mesh", "via the mesh, through the mesh"},
	{"he", "the operator, they"},
	{"him", "the operator, them"},
	{"his", "the operator's, their"},
}

// quotedAsData are the places where a banned phrase is not ours: it is data of a
// test, or the text of somebody else.
var quotedAsData = []struct{ file, phrase, why string }{
	{"state/words.go", "in vain", "a value in the history, which older programs wrote"},
	{"state/testdata/compact.txt", "in vain", "the same value"},
}

// pattern matches each of the phrases as whole words, in any case, also where a comment
// wraps within it.
func pattern(phrases ...string) *regexp.Regexp {
	const space = `(?:[ \t]+|[ \t]*\n[ \t]*(?://|#|\*)?[ \t]*)`
	words := strings.ReplaceAll(strings.Join(phrases, "|"), " ", space)
	return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`)
}

// TestPlainEnglish lists file and line of each banned phrase, and each exception
// that nothing needs.
func TestPlainEnglish(t *testing.T) {
	needed := make([]bool, len(quotedAsData))
	var phrases []string
	for _, b := range banned {
		phrases = append(phrases, b.phrase)
	}
	one := pattern(phrases...) // in one pass: nearly every text has none
	for _, f := range texts(t) {
		if f.name == "english_test.go" || !one.MatchString(f.body) {
			continue // the first is the list itself
		}
		for _, b := range banned {
			for _, m := range pattern(b.phrase).FindAllStringIndex(f.body, -1) {
				excuse := slices.IndexFunc(quotedAsData, func(q struct{ file, phrase, why string }) bool {
					return q.file == f.name && q.phrase == b.phrase
				})
				if excuse >= 0 {
					needed[excuse] = true
					continue
				}
				t.Errorf("%s:%d: %q: write: %s", f.name, f.line(m[0]), f.body[m[0]:m[1]], b.write)
			}
		}
	}
	for i, q := range quotedAsData {
		if !needed[i] {
			t.Errorf("%s does not have %q: drop the exception", q.file, q.phrase)
		}
	}
}

// frames are words with which a translation replaces names: "what is owed" instead of "the
// pending replies". A text may use each so often in 10,000 words, and once if it is short.
var frames = []struct {
	name    string
	pattern *regexp.Regexp
	most    int
}{
	{"what, whatever", regexp.MustCompile(`\b(?:what|whatever)\b`), 30},
	{"none, nobody, nothing, nor, neither", regexp.MustCompile(`\b(?:none|nobody|nothing|nor|neither)\b`), 20},
	{"stands, lies", regexp.MustCompile(`\b(?:stands?|lies|lie)\b`), 2},
	{"dear", regexp.MustCompile(`\b(?:dear(?:er|est)?|had again)\b`), 0},
}

// TestFrames counts the frames in the comments of each package and in each document. Above a
// limit, give the things names and rewrite the sentences: other words do not help.
func TestFrames(t *testing.T) {
	prose := map[string]*strings.Builder{}
	add := func(name, words string) {
		if prose[name] == nil {
			prose[name] = new(strings.Builder)
		}
		prose[name].WriteString(words + "\n")
	}
	comment := regexp.MustCompile(`(?m)(?:^|\s)//\s?(.*)$`)
	for _, f := range texts(t) {
		switch ext := path.Ext(f.name); {
		case strings.Contains(f.name, "testdata/"):
		case ext == ".md":
			add(f.name, code.ReplaceAllString(fence.ReplaceAllString(f.body, ""), "")) // keys and values are quoted
		case ext == ".go" && !strings.HasSuffix(f.name, "_test.go"):
			for _, m := range comment.FindAllStringSubmatch(f.body, -1) {
				if !strings.HasPrefix(m[1], "go:") {
					add(path.Dir(f.name)+"/", m[1])
				}
			}
		}
	}
	for name, text := range prose {
		words := len(strings.Fields(text.String()))
		for _, f := range frames {
			limit := f.most * words / 10_000
			if f.most > 0 {
				limit = max(1, limit)
			}
			if n := len(f.pattern.FindAllString(text.String(), -1)); n > limit {
				t.Errorf("%s: %d times %s in %d words, at most %d", name, n, f.name, words, limit)
			}
		}
	}
}
