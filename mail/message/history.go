package message

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
)

// Sent is our mail that an answer may repeat.
type Sent struct {
	Texts []string // of the answered mails, the nearest first
	Names []string // our addresses, our display name, our handle
}

// SenderName returns the display name in From of a raw mail of ours, or "".
func SenderName(raw []byte) string {
	for _, f := range Fields(raw) {
		if f.Name == "from" {
			name, _, _ := strings.Cut(decodeWords(f.Value), "<")
			return strings.Trim(name, ` "`)
		}
	}
	return ""
}

// LeftOut counts the lines of a mail that are missing in Content.Text.
type LeftOut struct {
	History   int // our own text, and the lines that introduce it
	Signature int
}

// String describes the lines that are left out. It returns "" if all lines are kept.
func (l LeftOut) String() string {
	var parts []string
	for _, p := range []struct {
		lines int
		what  string
	}{{l.History, "quoted from a mail of this agent"}, {l.Signature, "of a signature"}} {
		switch {
		case p.lines == 1:
			parts = append(parts, "1 line "+p.what)
		case p.lines > 1:
			parts = append(parts, fmt.Sprintf("%d lines %s", p.lines, p.what))
		}
	}
	return strings.Join(parts, " and ")
}

// history finds our own text in an answer, in any language: we know the text that we have sent,
// and our name. A line is history if
//
//   - it is quoted and repeats our text, or is between two such lines of one quotation;
//   - it is not quoted, repeats our text, and is below lines that introduce our text;
//   - it introduces such lines: it is directly above them, names us, and has the form of an
//     attribution or of a block of header fields.
//
// Our text is compared by words and in order, so wrapping, quotation marks and HTML make no
// difference. Quotations of anybody else stay.
type history struct {
	lines   []quotedLine
	sent    []sentText
	names   []ownName
	known   bool   // the texts of the answered mails are known
	removed []bool // by line
}

// quotedLine is one line of a mail.
type quotedLine struct {
	text  string   // without quotation marks and surrounding blanks
	marks int      // levels of quotation
	words []string // see words
}

func (l quotedLine) blank() bool { return l.text == "" }

// ownName is one of our names or addresses.
type ownName struct {
	words   []string
	address bool
}

// sentText is the text of a mail of ours. The words before next have been found.
type sentText struct {
	words []string
	next  int
}

// The limits of history.
const (
	maxSentWords  = 50_000 // of one mail of ours
	maxSkipped    = 400    // words of ours that a quotation may omit in one place
	minSkipping   = 3      // words of a line that may follow such an omission
	minFuzzy      = 5      // words of a line that may differ in some words
	maxFuzzy      = 200    // words of such a line
	maxIntroLines = 4      // of an attribution
	maxBlockLines = 12     // of a block of header fields
	minBlockLines = 3      //
	maxIntro      = 600    // bytes of an attribution, without the blanks between its lines
	maxFieldName  = 30     // bytes of the name of a header field, in any language
	maxFirstLines = 3      // below an introduction, one of which must be ours
	maxGap        = 20     // lines between two lines of ours that are removed with them

	maxControlLines = 60 // lines above an introduction that may be a control and its banners
)

// trimHistory returns the lines of an answer without history, and the number of lines with text
// that it left out.
func trimHistory(lines []string, sent Sent) (kept []string, left int) {
	h := history{known: len(sent.Texts) > 0, removed: make([]bool, len(lines))}
	for _, l := range lines {
		h.lines = append(h.lines, splitQuote(l))
	}
	for _, text := range sent.Texts {
		h.sent = append(h.sent, sentText{words: words(text, maxSentWords)})
	}
	for _, name := range sent.Names {
		if w := words(name, maxSentWords); len(w) > 0 {
			h.names = append(h.names, ownName{w, strings.Contains(name, "@")})
		}
	}
	h.find()
	h.fillGaps()
	for i, l := range lines {
		switch {
		case !h.removed[i]:
			kept = append(kept, l)
		case !h.lines[i].blank():
			left++
		}
	}
	return kept, left
}

// find marks history, from the top down.
func (h *history) find() {
	introduced := false // the following unquoted lines may be ours
	for i := 0; i < len(h.lines); {
		l := h.lines[i]
		if l.blank() || len(l.words) == 0 {
			i++
			continue
		}
		if n, below, quoted := h.introduction(i); n > 0 {
			h.remove(h.ruleAbove(i), below)
			introduced = !quoted
			i = below
			continue
		}
		if !h.removed[i] && (l.marks > 0 || introduced) {
			h.removed[i] = h.repeats(l.words)
		}
		i++
	}
}

// remove marks the lines from from up to but not including to.
func (h *history) remove(from, to int) {
	for i := from; i < to; i++ {
		h.removed[i] = true
	}
}

// fillGaps marks the lines between two lines of ours in one quotation: pictures, links and
// blank lines that a program has changed. Without quotation marks it only marks lines without
// words, because an answer may be between the lines.
func (h *history) fillGaps() {
	last := -1
	for i := range h.lines {
		if !h.removed[i] {
			continue
		}
		if last >= 0 && i-last > 1 && i-last <= maxGap && h.isGap(last, i) {
			h.remove(last+1, i)
		}
		last = i
	}
	// Blank quoted lines at the edges.
	for i := range h.lines {
		l := h.lines[i]
		if h.removed[i] || l.marks == 0 || len(l.words) > 0 || l.text != "" {
			continue
		}
		if i > 0 && h.removed[i-1] || i+1 < len(h.lines) && h.removed[i+1] {
			h.removed[i] = true
		}
	}
}

func (h *history) isGap(from, to int) bool {
	quoted := h.lines[from].marks > 0 && h.lines[to].marks > 0
	return !slices.ContainsFunc(h.lines[from+1:to], func(l quotedLine) bool {
		return len(l.words) > 0 && (!quoted || l.marks == 0)
	})
}

// repeats reports whether words are the next words of a mail of ours, and advances past them.
func (h *history) repeats(words []string) bool {
	for i := range h.sent {
		if next, ok := h.sent[i].find(words); ok {
			h.sent[i].next = next
			return true
		}
	}
	return false
}

// wouldRepeat is repeats without advancing.
func (h *history) wouldRepeat(words []string) bool {
	return slices.ContainsFunc(h.sent, func(s sentText) bool { _, ok := s.find(words); return ok })
}

// find returns the position in the text after words. A short line must directly follow the text
// found so far.
func (s sentText) find(words []string) (next int, ok bool) {
	last := s.next
	if len(words) >= minSkipping {
		last = min(s.next+maxSkipped, len(s.words))
	}
	for at := s.next; at <= last && at+len(words) <= len(s.words); at++ {
		if slices.Equal(s.words[at:at+len(words)], words) {
			return at + len(words), true
		}
	}
	if len(words) < minFuzzy || len(words) > maxFuzzy {
		return 0, false
	}
	return s.similar(words)
}

// similar finds a line of which four in five words are the next words of the text, in order: a
// program may have added the address of a link, or left out a picture.
func (s sentText) similar(words []string) (next int, ok bool) {
	window := s.words[s.next:min(len(s.words), s.next+2*len(words))]
	row := make([]int, len(window)+1) // of the longest common subsequence
	for _, w := range words {
		diagonal := 0
		for j := range window {
			above := row[j+1]
			switch {
			case window[j] == w:
				row[j+1] = diagonal + 1
			case row[j] > row[j+1]:
				row[j+1] = row[j]
			}
			diagonal = above
		}
	}
	common := row[len(window)]
	if 5*common < 4*len(words) {
		return 0, false
	}
	return s.next + slices.Index(row, common), true
}

// introduction returns the number of lines from i on that introduce our text, the line at which
// our text begins, and whether it is quoted. It returns 0 if the lines do not introduce our
// text.
func (h *history) introduction(i int) (n, below int, quoted bool) {
	if n = h.attribution(i); n == 0 {
		n = h.block(i)
	}
	if n == 0 {
		return 0, 0, false
	}
	below = i + n
	for below < len(h.lines) && len(h.lines[below].words) == 0 {
		below++
	}
	if below == len(h.lines) {
		return 0, 0, false
	}
	quoted = h.lines[below].marks > h.lines[i].marks
	switch {
	case h.beginsOurs(below):
		return n, below, quoted
	case !h.known && quoted:
		h.removeQuotation(below)
		return n, below, quoted
	case !quoted && h.controlAbove(i):
		h.remove(below, len(h.lines))
		return n, len(h.lines), quoted
	}
	return 0, 0, false
}

// controlAbove reports whether line i has only a control above it. The whole rest below is then
// history, although we do not know its text: a mail that says HALT first must not run a turn.
func (h *history) controlAbove(i int) bool {
	if i > maxControlLines {
		return false
	}
	var above []string
	for j, l := range h.lines[:h.ruleAbove(i)] {
		if !h.removed[j] {
			above = append(above, l.text)
		}
	}
	return Control(strings.Join(above, "\n")) != ""
}

// beginsOurs reports whether one of the first lines from i on repeats our text.
func (h *history) beginsOurs(i int) bool {
	for seen := 0; i < len(h.lines) && seen < maxFirstLines; i++ {
		if l := h.lines[i]; len(l.words) > 0 {
			if h.wouldRepeat(l.words) {
				return true
			}
			seen++
		}
	}
	return false
}

// removeQuotation marks a quotation of a mail whose text is unknown.
func (h *history) removeQuotation(from int) {
	for i := from; i < len(h.lines) && (h.lines[i].marks > 0 || h.lines[i].blank()); i++ {
		h.removed[i] = h.lines[i].marks > 0
	}
}

// attribution returns the number of lines from i on that say when we wrote, as in "On Mon, Jan
// 2, 2006 at 15:04 Ann <ann@example.com> wrote:", or 0. The line above may be the sender's,
// without a blank line in between.
func (h *history) attribution(i int) int {
	for n := 1; n <= maxIntroLines && i+n <= len(h.lines); n++ {
		if h.lines[i+n-1].blank() || h.lines[i+n-1].marks != h.lines[i].marks {
			return 0
		}
		if !h.attributes(h.lines[i : i+n]) {
			continue
		}
		rest := h.lines[i+1 : i+n]
		if n > 1 && h.attributes(rest) && (slices.ContainsFunc(rest, quotedLine.hasDate) || !h.lines[i].hasDate()) {
			return 0
		}
		return n
	}
	return 0
}

// attributes reports whether lines are an attribution to us. An attribution ends with a colon
// or is between dashes. It has our address, or our name and a date: "Bot wrote:" can be the
// beginning of an order.
func (h *history) attributes(lines []quotedLine) bool {
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.text)
	}
	joined := strings.TrimFunc(strings.Join(texts, " "), isDecoration)
	ends := strings.HasSuffix(joined, ":") || strings.HasSuffix(joined, "\uff1a") || strings.HasPrefix(joined, "--") && strings.HasSuffix(joined, "--")
	all := wordsOf(lines)
	return ends && len(joined) <= maxIntro && (h.hasName(all, true) || h.hasName(all, false) && hasDate(joined))
}

// isDecoration reports whether a character around an attribution carries no meaning.
func isDecoration(r rune) bool {
	return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || r == '*' || r == '_'
}

// block returns the number of lines from i on that are the header fields of a mail of ours, as
// Outlook writes them in any language, or 0. The first or the second field names us.
func (h *history) block(i int) int {
	n, fields, named := 0, 0, false
	for ; n < maxBlockLines && i+n < len(h.lines); n++ {
		l := h.lines[i+n]
		if l.blank() || l.marks != h.lines[i].marks {
			break
		}
		if hasLabel(l.text) {
			fields++
			named = named || fields <= 2 && h.hasName(l.words, false)
		} else if n == 0 {
			return 0
		}
	}
	if fields < minBlockLines || !named {
		return 0
	}
	return n
}

// hasLabel reports whether a line is a header field of any name: "Sent: Monday".
func hasLabel(line string) bool {
	line = strings.TrimLeft(line, "* ")
	i := strings.IndexAny(line, ":\uff1a")
	if i <= 0 || i > maxFieldName {
		return false
	}
	return !strings.ContainsFunc(line[:i], func(r rune) bool { return unicode.IsDigit(r) || strings.ContainsRune(",.!?<@/", r) })
}

// ruleAbove returns the line that a program draws above an introduction at i: "____",
// "-----Original Message-----". Without one it returns i.
func (h *history) ruleAbove(i int) int {
	at := i
	for at > 0 && h.lines[at-1].blank() {
		at--
	}
	if at > 0 && isRule(h.lines[at-1].text) {
		return at - 1
	}
	return i
}

// isRule reports whether a line is drawn, possibly with words in its middle.
func isRule(line string) bool {
	const drawn = "-_=*\u2013\u2014\u2500"
	inner := strings.TrimLeft(line, drawn)
	left := len(line) - len(inner)
	inner = strings.TrimRight(inner, drawn)
	return left >= 2 && (inner == "" || len(line)-left-len(inner) >= 2)
}

// hasName reports whether words contain one of our names. With address, only our addresses
// count.
func (h *history) hasName(words []string, address bool) bool {
	return slices.ContainsFunc(h.names, func(n ownName) bool { return (n.address || !address) && containsWords(words, n.words) })
}

// containsWords reports whether words contain some as a contiguous sequence.
func containsWords(words, some []string) bool {
	for i := 0; i+len(some) <= len(words); i++ {
		if slices.Equal(words[i:i+len(some)], some) {
			return true
		}
	}
	return false
}

// dates matches a year, in one of the eras in use, or a date in numbers.
var dates = lazy.NewRegexp(`\b(1[34]\d\d|19\d\d|2[0156]\d\d)(\D|$)|\d{1,4}[./-]\s?\d{1,2}[./-]\s?\d{1,4}`)

// hasDate reports whether a text has a date.
func hasDate(text string) bool { return dates.Get().MatchString(plain.ASCIIDigits(text)) }

func (l quotedLine) hasDate() bool { return hasDate(l.text) }

func wordsOf(lines []quotedLine) (all []string) {
	for _, l := range lines {
		all = append(all, l.words...)
	}
	return all
}

// splitQuote removes the quotation marks from a line.
func splitQuote(line string) quotedLine {
	l := quotedLine{text: strings.TrimSpace(line)}
	for {
		rest, ok := strings.CutPrefix(l.text, ">")
		if !ok {
			rest, ok = strings.CutPrefix(l.text, "\uff1e")
		}
		if !ok {
			l.words = words(l.text, maxSentWords)
			return l
		}
		l.marks++
		l.text = strings.TrimSpace(rest)
	}
}

// words returns the first words of a text in lower case, at most most: runs of letters and
// digits. In scripts without spaces between words each letter is one.
func words(text string, most int) []string {
	var all []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			all = append(all, word.String())
			word.Reset()
		}
	}
	for _, r := range text {
		switch {
		case len(all) >= most:
			return all
		case unicode.In(r, plain.Spaceless...):
			end()
			all = append(all, string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && word.Len() > 0:
			word.WriteRune(unicode.ToLower(r))
		default:
			end()
		}
	}
	end()
	return all
}
