package main_test

import (
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
	{"state/conversation.go", "in vain", "a value in the history, which older programs wrote"},
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
