package view

import (
	"fmt"
	"html"
	"strings"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// StatusPage is the HTML part of a mail with the status.
type StatusPage struct {
	Handle   string
	Phase    state.Phase
	Halted   bool
	Text     string // the text part: lines of the form "label: value"
	Week     Band
	Location *time.Location // of the days; nil: UTC
}

// weekDays is how many local days the page shows, today at the end.
const weekDays = 7

// HTML returns the page. Its styles are in the tags, because several mail programs drop others. It sets
// no color of text, and its colors of backgrounds suit light and dark.
func (p StatusPage) HTML() string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n" +
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title></title>\n</head>\n" +
		"<body style=\"margin:0;padding:8px\">\n<div style=\"" + pageFont + "\">\n")
	fmt.Fprintf(&b, "<p style=\"margin:0 0 12px\"><b>@%s</b> %s", html.EscapeString(p.Handle), badge(string(p.Phase), phaseColor(p.Phase)))
	if p.Halted {
		b.WriteString(" " + badge("HALTED", haltColor))
	}
	b.WriteString("</p>\n")
	p.rows(&b)
	p.week(&b)
	b.WriteString("</div>\n</body>\n</html>\n")
	return b.String()
}

const (
	pageFont  = "font-family:-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-size:16px;line-height:1.4;max-width:40em"
	small     = "font-size:14px;"
	haltColor = "rgba(220,60,60,0.45)"
)

// phaseColor returns the background color of a phase.
func phaseColor(phase state.Phase) string {
	switch phase {
	case state.PREP:
		return "rgba(220,160,0,0.55)"
	case state.ACTIVE:
		return "rgba(40,150,80,0.55)"
	}
	return "rgba(127,127,127,0.25)"
}

func badge(text, color string) string {
	return fmt.Sprintf(`<span style="padding:2px 8px;border-radius:6px;background-color:%s">%s</span>`, color, html.EscapeString(text))
}

// rows writes the lines of the text as a table.
func (p StatusPage) rows(b *strings.Builder) {
	b.WriteString("<table cellpadding=\"0\" cellspacing=\"0\" style=\"width:100%;margin:0 0 12px\">\n")
	for line := range strings.Lines(strings.TrimSpace(p.Text)) {
		label, value, ok := strings.Cut(plain.Line(line), ": ")
		if !ok {
			fmt.Fprintf(b, "<tr><td colspan=\"2\" style=\"padding:2px 0;overflow-wrap:anywhere\">%s</td></tr>\n", html.EscapeString(label))
			continue
		}
		fmt.Fprintf(b, "<tr><td style=\"padding:2px 8px 2px 0;vertical-align:top;overflow-wrap:anywhere;min-width:4em\">%s</td><td dir=\"auto\" style=\"padding:2px 0;overflow-wrap:anywhere\">%s</td></tr>\n",
			html.EscapeString(label), html.EscapeString(value))
	}
	b.WriteString("</table>\n")
}

// week writes a row of hours for each day.
func (p StatusPage) week(b *strings.Builder) {
	zone := p.Location
	if zone == nil {
		zone = time.UTC
	}
	today := p.Week.To.In(zone)
	fmt.Fprintf(b, "<p style=\"margin:0 0 4px\">%s</p>\n<table cellpadding=\"0\" cellspacing=\"0\" style=\"width:100%%;table-layout:fixed;border-spacing:0 3px;%s\">\n<tr><td style=\"width:56px\"></td>", html.EscapeString(p.summary()), small)
	for hour := 0; hour < dayHours; hour += 6 {
		fmt.Fprintf(b, `<td colspan="6">%d:00</td>`, hour)
	}
	b.WriteString("</tr>\n")
	for ago := weekDays - 1; ago >= 0; ago-- {
		day := time.Date(today.Year(), today.Month(), today.Day()-ago, 12, 0, 0, 0, zone)
		fmt.Fprintf(b, "<tr><td>%s</td>", day.Format("Mon 02"))
		p.hours(b, day)
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>\n<p style=\"margin:8px 0 0;" + small + "\">")
	for _, phase := range []state.Phase{state.IDLE, state.PREP, state.ACTIVE} {
		b.WriteString(badge(string(phase), phaseColor(phase)) + " ")
	}
	b.WriteString(badge("HALT", haltColor) + "</p>\n")
}

// dayHours is the number of cells of a day. On the days of a clock change an hour has no cell of its own,
// or one without a length.
const dayHours = 24

// hours writes the cells of a day. Neighbours of the same color are one cell.
func (p StatusPage) hours(b *strings.Builder, day time.Time) {
	last, width := "", 0
	flush := func() {
		if width > 0 {
			fmt.Fprintf(b, `<td colspan="%d" style="background-color:%s"></td>`, width, last)
		}
	}
	for hour := range dayHours {
		from := time.Date(day.Year(), day.Month(), day.Day(), hour, 0, 0, 0, day.Location())
		color := p.color(from, from.Add(time.Hour))
		if color != last {
			flush()
			last, width = color, 0
		}
		width++
	}
	flush()
}

// color returns the color of a time: of a HALT, or else of the most engaged phase in it, so that a short
// conversation is seen.
func (p StatusPage) color(from, to time.Time) string {
	for _, m := range p.Week.Marks {
		if m.Kind == MarkHalt && m.At.Before(to) && m.To.After(from) {
			return haltColor
		}
	}
	lasted := p.lasted(from, to)
	for _, phase := range []state.Phase{state.ACTIVE, state.PREP, state.IDLE} {
		if lasted[phase] > 0 {
			return phaseColor(phase)
		}
	}
	return "transparent"
}

// lasted returns how long each phase lasted between two times.
func (p StatusPage) lasted(from, to time.Time) map[state.Phase]time.Duration {
	all := map[state.Phase]time.Duration{}
	for _, s := range p.Week.Phases {
		if d := earlier(s.To, to).Sub(Later(s.From, from)); d > 0 {
			all[s.Phase] += d
		}
	}
	return all
}

// summary says in words how the week was.
func (p StatusPage) summary() string {
	counts := map[string]int{}
	for _, m := range p.Week.Marks {
		counts[m.Kind] += m.Count
	}
	lasted := p.lasted(p.Week.From, p.Week.To)
	text := fmt.Sprintf("The last week: ACTIVE for %s, PREP for %s", hoursAndMinutes(lasted[state.ACTIVE]), hoursAndMinutes(lasted[state.PREP]))
	for _, kind := range []string{MarkMail, MarkNudge, MarkTurn, MarkAnswer} {
		if n := counts[kind]; n == 1 {
			text += ", 1 " + strings.TrimSuffix(noun(kind), "s")
		} else if n > 1 {
			text += fmt.Sprintf(", %d %s", n, noun(kind))
		}
	}
	return text + "."
}

func hoursAndMinutes(d time.Duration) string {
	minutes := int(d.Round(time.Minute) / time.Minute)
	return fmt.Sprintf("%d:%02d h", minutes/60, minutes%60)
}
