package prompt

import (
	"fmt"
	"regexp"
	"strings"

	"agentstateloop/state"
)

// Fence marks a text as data, and keeps it from closing the fence itself.
func Fence(tag, text string) string {
	return fmt.Sprintf("<%s>\n%s\n</%[1]s>", tag, strings.TrimRight(unfence(tag, text), "\n"))
}

// Fenced is Fence, and nothing for nothing.
func Fenced(tag, text string) string {
	if text == "" {
		return ""
	}
	return Fence(tag, text)
}

// unfence breaks whatever in a text could pass for the tag's end, or for a new
// beginning of it.
func unfence(tag, text string) string {
	return regexp.MustCompile(`(?i)<(\s*/?\s*`+tag+`)`).ReplaceAllString(text, `<\$1`)
}

// SystemNote is the note of a reset, as the next context begins with it.
func SystemNote(r state.Reset) string {
	if r.Note == "" {
		return ""
	}
	return fmt.Sprintf("<system_message origin=%q>\n%s\n</system_message>", r.Origin, unfence("system_message", r.Note))
}
