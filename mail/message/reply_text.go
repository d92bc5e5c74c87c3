package message

import (
	"strings"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
)

// ReplyText returns what the sender wrote, without quoted history and
// signatures as Gmail, Outlook, Apple Mail and similar programs add them.
// Answers written between quoted lines stay, and so does forwarded mail.
// ReplyText only ever leaves lines out. What it drops is still in Content.Full
// and in the raw mail.
func ReplyText(text string) string {
	lines := strings.Split(plain.Text(text), "\n")
	lines = trimHistory(lines)
	lines = trimSignature(lines)
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// The lines with which mail programs introduce what is quoted below.
var (
	// "On Mon, Jan 2, 2006 at 15:04 Ann <ann@example.com> wrote:", joined from
	// up to four lines.
	attributionLine = lazy.NewRegexp(`(?i)^(` +
		`on\b.{4,300}\bwrote:` +
		`|am\b.{4,300}\bschrieb\b.{0,200}:` +
		`|le\b.{4,300}\ba écrit\s?:` +
		`|el\b.{4,300}\bescribió:` +
		`|il\b.{4,300}\bha scritto:` +
		`|op\b.{4,300}\bschreef\b.{0,200}:` +
		`|em\b.{4,300}\bescreveu:` +
		`)$`)
	attributionStart = lazy.NewRegexp(`(?i)^(on|am|le|el|il|op|em)\b`)

	originalMessage = lazy.NewRegexp(`(?i)^-{2,}\s*(original message|ursprüngliche nachricht|message d'origine|original-nachricht)\s*-{2,}$`)

	// The block of Outlook: a From line, with a Sent line soon after it.
	outlookFrom = lazy.NewRegexp(`(?i)^\*?(from|von|de)\s?:\*?\s+\S`)
	outlookSent = lazy.NewRegexp(`(?i)^\*?(sent|gesendet|envoyé|date|datum)\s?:\*?\s+\S`)

	forwarded = lazy.NewRegexp(`(?i)^(-{2,}\s*(forwarded message|weitergeleitete nachricht|message transféré)\s*-{2,}|begin forwarded message:|anfang der weitergeleiteten nachricht:|début du message réexpédié\s?:)$`)

	deviceLine = lazy.NewRegexp(`(?i)^(sent from (my|mail for|outlook|yahoo|proton)\b.*|get outlook for .*|von meinem .{1,40} gesendet|gesendet (von|mit) .*|outlook für .* beziehen|envoyé de(puis)? mon .*|télécharger outlook pour .*)$`)
)

// trimHistory leaves out quoted lines, and everything below a line that
// introduces history that is not quoted line by line.
func trimHistory(lines []string) []string {
	var kept []string
	written := false // there is text of the sender above
	for i := 0; i < len(lines); {
		line := strings.TrimSpace(lines[i])
		if forwarded.Get().MatchString(line) {
			return append(kept, lines[i:]...)
		}
		if n := attributionLines(lines[i:]); n > 0 {
			i += n
			if !strings.HasPrefix(nextText(lines[i:]), ">") {
				return kept
			}
			continue
		}
		if written && historyBlock(lines[i:]) {
			return withoutRule(kept)
		}
		if !strings.HasPrefix(line, ">") {
			kept = append(kept, lines[i])
			written = written || line != ""
		}
		i++
	}
	return kept
}

// withoutRule leaves out the rule that Outlook draws above history.
func withoutRule(lines []string) []string {
	for i := len(lines) - 1; i >= 0; i-- {
		switch strings.TrimSpace(lines[i]) {
		case "":
		case "---":
			return lines[:i]
		default:
			return lines
		}
	}
	return lines
}

// The limits of the lines that introduce history, and of the one of a device.
const (
	maxAttributionLines = 4
	maxAttribution      = 600 // bytes, without the blanks between the lines
	minRule             = 20  // characters of the line that Outlook draws
	maxAboveSent        = 3   // lines below From, up to Sent
	maxDeviceLine       = 100 // bytes
)

// attributionLines returns the number of lines, at the start of lines, that
// together introduce a quotation, or 0. Mail programs wrap this text anywhere.
func attributionLines(lines []string) int {
	if !attributionStart.Get().MatchString(strings.TrimSpace(lines[0])) {
		return 0
	}
	joined := ""
	for n := 1; n <= maxAttributionLines && n <= len(lines); n++ {
		part := strings.TrimSpace(lines[n-1])
		if part == "" || len(joined)+len(part) > maxAttribution {
			return 0
		}
		joined = strings.TrimSpace(joined + " " + part)
		if attributionLine.Get().MatchString(joined) {
			return n
		}
	}
	return 0
}

// historyBlock reports whether lines begin with the block with which Outlook
// introduces history. If nothing is written above it, the block is a forwarded
// mail instead.
func historyBlock(lines []string) bool {
	line := strings.TrimSpace(lines[0])
	if originalMessage.Get().MatchString(line) {
		return true
	}
	if strings.Trim(line, "_") == "" && len(line) >= minRule {
		return outlookFrom.Get().MatchString(nextText(lines[1:]))
	}
	if !outlookFrom.Get().MatchString(line) {
		return false
	}
	for _, l := range lines[1:min(1+maxAboveSent, len(lines))] {
		if outlookSent.Get().MatchString(strings.TrimSpace(l)) {
			return true
		}
	}
	return false
}

// nextText returns the first line that is not blank, trimmed.
func nextText(lines []string) string {
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" {
			return l
		}
	}
	return ""
}

// maxSignature is the number of lines below a "--" without its blank that may
// be a signature. If there are more, they are text.
const maxSignature = 8

// trimSignature removes the lines below "-- " (RFC 3676 section 4.3), and
// a last line that a device has added.
func trimSignature(lines []string) []string {
	for i, l := range lines {
		if forwarded.Get().MatchString(strings.TrimSpace(l)) {
			return lines // a signature below is part of what was forwarded
		}
		if l == "-- " || l == "--" && len(lines)-i-1 <= maxSignature {
			lines = lines[:i]
			break
		}
	}
	for len(lines) > 0 {
		last := strings.TrimSpace(lines[len(lines)-1])
		if last != "" && (len(last) > maxDeviceLine || !deviceLine.Get().MatchString(last)) {
			break
		}
		lines = lines[:len(lines)-1]
	}
	return lines
}
