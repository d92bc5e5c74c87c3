package turn

import (
	"strings"

	"agentstateloop/internal/lazy"
)

// Models of one's own print what they think before they answer, in a block of which the server
// should have made something else. Such a block is neither mailed nor sent back.
var (
	thoughtBegins = lazy.NewRegexp(`^\s*(?:<(think|thinking|thought|thoughts|reasoning|reflection|seed:think|ant:thinking)>|(◁think▷)|(\[THINK\]))`)
	thoughtEnds   = lazy.NewRegexp(`(?m)^\s*(?:</(?:think|thinking|thought|reasoning|seed:think)>|◁/think▷|\[/THINK\])[ \t]*$`)
)

// longestTag is the length of the longest beginning of a thought, in bytes.
const longestTag = len("<ant:thinking>")

// AfterThoughts returns what follows the thoughts at the beginning of a text. undecided is true
// if more of the text could make it a thought, or end one.
func AfterThoughts(text string) (rest string, undecided bool) {
	for {
		m := thoughtBegins.Get().FindStringSubmatchIndex(text)
		if m == nil {
			begins := strings.TrimLeft(text, " \t\r\n")
			return text, len(begins) < longestTag && mayBegin(begins)
		}
		end := closing(text, m)
		at := strings.Index(text[m[1]:], end)
		if at < 0 {
			return "", true
		}
		text = strings.TrimLeft(text[m[1]+at+len(end):], " \t\r\n")
	}
}

// closing returns the end of the thought whose beginning is matched.
func closing(text string, m []int) string {
	switch {
	case m[2] >= 0:
		return "</" + text[m[2]:m[3]] + ">"
	case m[4] >= 0:
		return "◁/think▷"
	}
	return "[/THINK]"
}

// mayBegin reports whether a text could go on to be the beginning of a thought.
func mayBegin(text string) bool {
	for _, tag := range []string{"<think>", "<thinking>", "<thought>", "<thoughts>", "<reasoning>", "<reflection>", "<seed:think>", "<ant:thinking>", "◁think▷", "[THINK]"} {
		if strings.HasPrefix(tag, text) {
			return true
		}
	}
	return false
}

// withoutThoughts returns a whole text without the thoughts at its beginning, whether they end or
// not.
func withoutThoughts(text string) string {
	if !thoughtBegins.Get().MatchString(text) {
		return text
	}
	rest, _ := AfterThoughts(text)
	return rest
}

// WithoutThoughts does the same to the answer of a model, whose server may have left out the tag
// that begins them.
func WithoutThoughts(text string) string {
	m := thoughtEnds.Get().FindStringIndex(text)
	if m == nil || thoughtBegins.Get().MatchString(text) || strings.Contains(text[:m[0]], "<think") {
		return withoutThoughts(text)
	}
	return strings.TrimLeft(text[m[1]:], " \t\r\n")
}
