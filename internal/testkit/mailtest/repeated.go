package mailtest

import "strings"

// Repeated returns the first three words that occur twice in a line, or "". An error that wraps
// another one and repeats its text has such words.
func Repeated(line string) string {
	words := strings.Fields(line)
	seen := map[string]int{}
	for i := 0; i+3 <= len(words); i++ {
		phrase := strings.ToLower(strings.Join(words[i:i+3], " "))
		phrase = strings.Trim(phrase, `.,:;()"'`)
		if first, again := seen[phrase]; again && i >= first+3 {
			return phrase
		}
		if _, again := seen[phrase]; !again {
			seen[phrase] = i
		}
	}
	return ""
}
