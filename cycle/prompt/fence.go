package prompt

import (
	"fmt"
	"regexp"
	"strings"

	"agentstateloop/state"
)

// Fence puts a text between tags that mark it as data. The text cannot close the
// fence.
func Fence(tag, text string) string {
	return fmt.Sprintf("<%s>\n%s\n</%[1]s>", tag, strings.TrimRight(unfence(tag, text), "\n"))
}

// Fenced is Fence, but returns "" for an empty text.
func Fenced(tag, text string) string {
	if text == "" {
		return ""
	}
	return Fence(tag, text)
}

// unfence escapes whatever in a text could pass for the tag, opening or closing.
func unfence(tag, text string) string {
	return regexp.MustCompile(`(?i)<(\s*/?\s*`+tag+`)`).ReplaceAllString(text, `<\$1`)
}

// SystemNote returns the note of a reset, with which the next context begins.
func SystemNote(r state.Reset) string {
	if r.Note == "" {
		return ""
	}
	return fmt.Sprintf("<system_message origin=%q>\n%s\n</system_message>", r.Origin, unfence("system_message", r.Note))
}
