package cycle

import (
	"fmt"
	"path"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// sentNames returns the names, without folders, under which files of an output folder are sent.
// A file keeps its own name unless two names collide, which they also do if they differ only in
// case or in the form of their accents. Then a file in a subfolder gets the folder's name in
// front, as in "a-report.pdf", and any other file a number at the end.
func sentNames(names []string) []string {
	sent := make([]string, len(names))
	count, taken := map[string]int{}, map[string]bool{}
	for _, name := range names {
		count[folded(path.Base(name))]++
	}
	take := func(i int, name string) {
		name = message.FileName(name, i+1)
		ext := path.Ext(name)
		stem := plain.Cut(strings.TrimSuffix(name, ext), 200)
		for n := 2; taken[folded(name)]; n++ {
			name = message.FileName(fmt.Sprintf("%s-%d%s", stem, n, ext), i+1)
		}
		taken[folded(name)] = true
		sent[i] = name
	}
	apart := func(name string) bool { return strings.Contains(name, "/") && count[folded(path.Base(name))] > 1 }
	for i, name := range names {
		if !apart(name) {
			take(i, path.Base(name))
		}
	}
	for i, name := range names {
		if apart(name) {
			take(i, strings.ReplaceAll(name, "/", "-"))
		}
	}
	return sent
}

// folded maps all names that some system considers equal to the same text.
func folded(name string) string {
	return norm.NFC.String(strings.ToLower(norm.NFC.String(message.FileName(name, 0))))
}

// meshName returns a name for the mesh, without unprintable characters.
func meshName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name)
}
