package turn

import (
	"strings"

	"agentstateloop/internal/lazy"
)

// Self-hosted models print their thoughts before the answer, in a block that their server should
// have converted. Such a block is never mailed or sent back.
var (
	thoughtBegins = lazy.NewRegexp(`^\s*(?:<(think|thinking|thought|thoughts|reasoning|reflection|seed:think|ant:thinking)>|(◁think▷)|(\[THINK\]))`)
	thoughtEnds   = lazy.NewRegexp(`(?m)^\s*(?:</(?:think|thinking|thought|reasoning|seed:think)>|◁/think▷|\[/THINK\])[ \t]*$`)
)

// longestTag is the length of the longest opening tag, in bytes.
const longestTag = len("<ant:thinking>")

// AfterThoughts returns the text after the thoughts at its beginning. undecided is true if
// further text could make it a thought, or end one.
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

// closing returns the closing tag for a match of thoughtBegins.
func closing(text string, m []int) string {
	switch {
	case m[2] >= 0:
		return "</" + text[m[2]:m[3]] + ">"
	case m[4] >= 0:
		return "◁/think▷"
	}
	return "[/THINK]"
}

// mayBegin reports whether text could be the start of an opening tag.
func mayBegin(text string) bool {
	for _, tag := range []string{"<think>", "<thinking>", "<thought>", "<thoughts>", "<reasoning>", "<reflection>", "<seed:think>", "<ant:thinking>", "◁think▷", "[THINK]"} {
		if strings.HasPrefix(tag, text) {
			return true
		}
	}
	return false
}

// withoutThoughts returns a whole text without the thoughts at its beginning, closed or not.
func withoutThoughts(text string) string {
	if !thoughtBegins.Get().MatchString(text) {
		return text
	}
	rest, _ := AfterThoughts(text)
	return rest
}

// WithoutThoughts does the same for the answer of a model whose server may have dropped the
// opening tag. In that case a closing tag on a line of its own ends the thought.
func WithoutThoughts(text string) string {
	m := thoughtEnds.Get().FindStringIndex(text)
	if m == nil || thoughtBegins.Get().MatchString(text) || strings.Contains(text[:m[0]], "<think") {
		return withoutThoughts(text)
	}
	return strings.TrimLeft(text[m[1]:], " \t\r\n")
}
