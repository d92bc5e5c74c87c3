// Package recording draws the output of the demo as an animated SVG, for the README. The picture
// plays inside an img element: it has no script, and loads nothing. A viewer who prefers reduced
// motion sees the last frame.
package recording

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The terminal, in cells.
const (
	columns = 64
	rows    = 20
	indent  = 20 // where the text of an event begins
)

// The picture, in pixels.
const (
	width      = 830
	cell       = 12.1 // width of a character
	lineHeight = 30
	margin     = 28
	top        = 62 // of the first row
	height     = top + rows*lineHeight + 38
)

// The seconds of the recording.
const (
	beforeTyping = 0.6
	perKey       = 0.07
	afterTyping  = 0.5
	perScene     = 0.7
	perEvent     = 0.22
	perCharacter = 0.008
	scrolling    = 0.16
	lastFrame    = 5.0
)

// run is a part of a row in one style.
type run struct {
	class  string
	column int
	text   string
}

// block is a printed line, wrapped into rows that appear together.
type block struct {
	rows  [][]run
	phase string  // of an event
	pause float64 // seconds until the next block
}

// styled is a text with the class of each of its characters.
type styled struct {
	text    []rune
	classes []string
}

func (s *styled) add(class, text string) {
	for _, r := range text {
		s.text = append(s.text, r)
		s.classes = append(s.classes, class)
	}
}

// SVG returns the recording of a command that printed output.
func SVG(command, output string) []byte {
	var typed styled
	typed.add("ACTIVE", "$ ")
	typed.add("h", command)
	blocks := []block{{rows: wrap(typed, 0), pause: afterTyping}}
	for _, paragraph := range paragraphs(output) {
		blocks = append(blocks, draw(paragraph))
	}
	var prompt styled
	prompt.add("ACTIVE", "$")
	blocks = append(blocks, block{rows: append([][]run{nil}, wrap(prompt, 0)...)})
	return []byte(picture(command, blocks))
}

// paragraphs returns the lines of a text. Lines that continue a sentence at the margin are joined.
func paragraphs(text string) []string {
	var all []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		last := len(all) - 1
		if last >= 0 && atMargin(all[last]) && atMargin(line) {
			all[last] += " " + line
			continue
		}
		all = append(all, line)
	}
	return all
}

// atMargin reports whether a line has text that is not indented.
func atMargin(line string) bool { return line != "" && line[0] != ' ' }

var (
	event  = regexp.MustCompile(`^  (.{5})  (IDLE  |PREP  |ACTIVE)  (->|<-|  ) (.*)$`)
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// draw returns the block of a printed line.
func draw(line string) block {
	var s styled
	m := event.FindStringSubmatch(line)
	switch {
	case line == "":
		return block{rows: [][]run{nil}}
	case m == nil && strings.HasSuffix(line, "."):
		s.add("d", line)
		return block{rows: wrap(s, 0), pause: perScene}
	case m == nil:
		s.add("h", line)
		return block{rows: wrap(s, 0), pause: perScene}
	}
	clock, phase, direction, text := m[1], strings.TrimSpace(m[2]), m[3], m[4]
	s.add("d", "  "+clock+"  ")
	s.add(phase, fmt.Sprintf("%-8s", phase))
	plain, quote := "d", map[string]string{"->": "in", "<-": "out", "  ": "d"}[direction]
	if direction != "  " {
		plain = "t"
	}
	s.add(quote, direction+" ")
	end := 0
	for _, at := range quoted.FindAllStringIndex(text, -1) {
		s.add(plain, text[end:at[0]])
		s.add(quote, text[at[0]:at[1]])
		end = at[1]
	}
	s.add(plain, text[end:])
	return block{rows: wrap(s, indent), phase: phase, pause: perEvent + perCharacter*float64(len(text))}
}

// wrap breaks a text between words into rows. All rows after the first begin at the indent.
func wrap(s styled, indent int) [][]run {
	var all [][]run
	column := 0
	for len(s.text) > 0 {
		n := min(len(s.text), columns-column)
		if n < len(s.text) {
			for at := n; at > 0; at-- {
				if s.text[at] == ' ' {
					n = at
					break
				}
			}
		}
		all = append(all, runs(s.text[:n], s.classes[:n], column))
		for n < len(s.text) && s.text[n] == ' ' {
			n++
		}
		s.text, s.classes, column = s.text[n:], s.classes[n:], indent
	}
	return all
}

// runs returns the parts of a row that have one class each, without the spaces around them.
func runs(text []rune, classes []string, column int) []run {
	var all []run
	for start := 0; start < len(text); {
		end := start + 1
		for end < len(text) && classes[end] == classes[start] {
			end++
		}
		part := string(text[start:end])
		if trimmed := strings.TrimLeft(part, " "); trimmed != "" {
			all = append(all, run{classes[start], column + start + len(part) - len(trimmed), strings.TrimRight(trimmed, " ")})
		}
		start = end
	}
	return all
}

// style has the colors. The pictures without animation are the last frame.
const style = `
text{font:20px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#1f2328}
.h{font-weight:700}.d{fill:#59636e}.in{fill:#0550ae}.out{fill:#7a3ec8}
.IDLE{fill:#59636e}.PREP{fill:#8a5a00}.ACTIVE{fill:#116329}.IDLE,.PREP,.ACTIVE{font-weight:700}
.paper{fill:#fff}.bar{fill:#f3f5f7}.edge{fill:none;stroke:#d0d7de}.name{font-size:17px;fill:#59636e}.cursor{fill:#116329}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.d,.name{fill:#9198a1}.in{fill:#79c0ff}.out{fill:#d2a8ff}
.IDLE{fill:#9198a1}.PREP{fill:#e3b341}.ACTIVE,.cursor{fill:#56d364}
.paper{fill:#0d1117}.bar{fill:#161b22}.edge{stroke:#3d444d}}
#cover,#keys{visibility:hidden}
`

// picture returns the SVG.
func picture(command string, blocks []block) string {
	typing := beforeTyping + perKey*float64(utf8.RuneCountInString(command))
	total := typing + lastFrame
	for _, b := range blocks {
		total += b.pause
	}
	end := total - lastFrame
	percent := func(at float64) string { return fmt.Sprintf("%.2f%%", 100*at/total) }

	var text, cover, scroll, band strings.Builder
	at, row, phase, since := typing, 0, "", 0.0
	mark := func(next string) { // ends the band of a phase
		if phase != "" {
			fmt.Fprintf(&band, `<rect class="%s" x="%.1f" width="%.1f" y="%d" height="6"/>`+"\n", phase, x(0)+since/end*span(columns), (at-since)/end*span(columns), height-24)
		}
		if phase != "" {
			since = at
		}
		phase = next
	}
	fmt.Fprintf(&cover, "0%%{transform:translateY(%dpx)}\n", lineHeight)
	fmt.Fprintf(&scroll, "0%%{transform:none}\n")
	offset := 0
	for i, b := range blocks {
		if b.phase != "" && b.phase != phase {
			mark(b.phase)
		}
		for _, r := range b.rows {
			for _, part := range r {
				fmt.Fprintf(&text, `<text class="%s" x="%.1f" y="%d" textLength="%.1f">%s</text>`+"\n",
					part.class, x(part.column), top+row*lineHeight+22, span(utf8.RuneCountInString(part.text)), escape.Replace(part.text))
			}
			row++
		}
		if i > 0 {
			fmt.Fprintf(&cover, "%s{transform:translateY(%dpx)}\n", percent(at), row*lineHeight)
		}
		if needed := max(0, row-rows) * lineHeight; needed > offset {
			fmt.Fprintf(&scroll, "%s{transform:translateY(%dpx)}\n%s{transform:translateY(%dpx)}\n", percent(at), -offset, percent(at+scrolling), -needed)
			offset = needed
		}
		at += b.pause
	}
	mark("")
	fmt.Fprintf(&scroll, "100%%{transform:translateY(%dpx)}\n", -offset)

	keys := utf8.RuneCountInString(command)
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title desc">
<title id="title">A terminal runs %s</title>
<desc id="desc">A day of an agent, with the time, the phase and each event. It sleeps (IDLE) and polls every 30 minutes. A mail wakes it (PREP, then ACTIVE), it polls every minute and answers each message. After a silence it sleeps again.</desc>
<style>%s#screen{transform:translateY(%dpx)}
@media(prefers-reduced-motion:no-preference){
#cover,#keys{visibility:visible}
#screen{animation:scroll %.2fs infinite}
#cover{animation:cover %.2fs step-end infinite}
#keys{animation:keys %.2fs infinite}
#played{animation:played %.2fs linear infinite}
.cursor{animation:blink 1s step-end infinite}}
@keyframes blink{50%%{opacity:0}}
@keyframes played{from{transform:scaleX(0)}%s{transform:none}}
@keyframes keys{0%%,%s{transform:none;animation-timing-function:steps(%d)}%s{transform:translateX(%.1fpx);visibility:visible}%s,100%%{transform:translateX(%.1fpx);visibility:hidden}}
@keyframes cover{
%s}
@keyframes scroll{
%s}
</style>
`, width, height, width, height, escape.Replace(command), style, -offset, total, total, total, total,
		percent(end), percent(beforeTyping), keys, percent(typing), span(keys), percent(typing+0.01), span(keys), cover.String(), scroll.String())
	fmt.Fprintf(&s, `<clipPath id="glass"><rect x="0" y="%d" width="%d" height="%d"/></clipPath>
<clipPath id="part"><rect id="played" x="%.1f" y="%d" width="%.1f" height="6" style="transform-origin:%.1fpx 0"/></clipPath>
<rect class="paper" x="1" y="1" width="%d" height="%d" rx="12"/>
<path class="bar" d="M1 44V13a12 12 0 0 1 12-12h%da12 12 0 0 1 12 12v31z"/>
<circle cx="26" cy="23" r="6.5" fill="#ff5f57"/><circle cx="48" cy="23" r="6.5" fill="#febc2e"/><circle cx="70" cy="23" r="6.5" fill="#28c840"/>
<text class="name" x="%d" y="29" text-anchor="middle">%s</text>
<g clip-path="url(#glass)"><g id="screen">
`, top-2, width, rows*lineHeight+2, x(0), height-24, span(columns), x(0), width-2, height-2, width-26, width/2, escape.Replace(command))
	s.WriteString(text.String())
	fmt.Fprintf(&s, `<rect class="cursor" x="%.1f" y="%d" width="11" height="23"/>
<rect id="cover" class="paper" x="2" y="%d" width="%d" height="%d"/>
<g id="keys"><rect class="paper" x="%.1f" y="%d" width="%.1f" height="%d"/><rect class="cursor" x="%.1f" y="%d" width="11" height="23"/></g>
</g></g>
<rect class="bar" x="%.1f" width="%.1f" y="%d" height="6"/>
<g clip-path="url(#part)">
%s</g>
<rect class="edge" x="1" y="1" width="%d" height="%d" rx="12"/>
</svg>
`, x(2), top+(row-1)*lineHeight+4, top, width-4, row*lineHeight, x(2), top, span(keys+1), lineHeight, x(2), top+4, x(0), span(columns), height-24, band.String(), width-2, height-2)
	return s.String()
}

// x returns the position of a column, span the width of some characters.
func x(column int) float64   { return margin + span(column) }
func span(count int) float64 { return float64(count) * cell }

// escape makes a text safe between tags.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
