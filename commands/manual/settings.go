package manual

import (
	"strings"

	"agentstateloop/internal/lazy"
)

// The lines of the example configuration. A setting is in a comment if the line shows a default.
var (
	section = lazy.NewRegexp(`^(?:# )?(\[\[?[a-z0-9._"-]+\]\]?)(?: +# (.*))?$`)
	setting = lazy.NewRegexp(`^(# )?([a-z_0-9]+) *= ((?:"(?:[^"\\]|\\.)*"|[^#"])*?)(?: +# (.*))?$`)
	more    = lazy.NewRegexp(`^#? {8,}#? *(.*)$`) // the comment of the line before goes on
)

// Settings adds a section for each section of the example configuration, with all settings and
// their comments. The text before the first section becomes paragraphs.
func (p *Page) Settings(example string) {
	s := settings{page: p}
	for line := range strings.Lines(example) {
		s.line(strings.TrimRight(line, "\n"))
	}
	s.paragraph()
}

// settings is the state of Settings between two lines.
type settings struct {
	page *Page
	text []string // lines of a paragraph that is not written yet
}

func (s *settings) line(line string) {
	if m := section.Get().FindStringSubmatch(line); m != nil {
		s.page.Subheading(m[1])
		s.text = append(s.text, m[2]) // a paragraph before the section belongs to it
		s.paragraph()
		return
	}
	if m := setting.Get().FindStringSubmatch(line); m != nil {
		s.paragraph()
		s.page.Item(m[1]+m[2], " = "+m[3], m[4])
		return
	}
	if m := more.Get().FindStringSubmatch(line); m != nil {
		s.page.line(m[1])
		return
	}
	text := strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ")
	if text == "" {
		s.paragraph()
		return
	}
	s.text = append(s.text, text)
}

// paragraph writes the waiting lines.
func (s *settings) paragraph() {
	s.page.Text(strings.Join(s.text, "\n"))
	s.text = nil
}
