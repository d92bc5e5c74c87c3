package present

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/replay"
	"agentstateloop/cycle/timeline"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// ReplayStory writes the entries of a replay, as `demo` prints its story, day by day.
type ReplayStory struct {
	lane timeline.Lane
	text *strings.Builder // of the lines that Add returns next
	zone *time.Location
	day  string
}

// NewReplayStory returns a story with the times of a zone.
func NewReplayStory(zone *time.Location) *ReplayStory {
	text := new(strings.Builder)
	return &ReplayStory{lane: timeline.Lane{Timeline: &timeline.Timeline{Out: text}, Phase: state.IDLE}, text: text, zone: zone}
}

// lines returns the lines that are written and not returned yet.
func (p *ReplayStory) lines() string {
	text := p.text.String()
	p.text.Reset()
	return text
}

// maxReplayed is how many characters of a text of others are on a line.
const maxReplayed = 100

// Add adds an entry, and returns the next lines of the story. Polls without news are counted, and come
// with the entry after them.
func (p *ReplayStory) Add(e replay.Entry) string {
	if e.Kind == replay.Polls {
		if e.Phase != p.lane.Phase {
			p.lane.ShowEmpty()
		}
		p.lane.Phase = e.Phase
		p.lane.Empty(e.Count)
		return p.lines()
	}
	p.lane.ShowEmpty() // these polls belong to the earlier phase
	at := e.At.In(p.zone)
	if day := at.Format("Monday, 2 January 2006"); day != p.day {
		p.day = day
		p.lane.Heading(day)
	}
	p.lane.Now, p.lane.Phase = at, e.Phase
	direction := timeline.Between
	switch e.Kind {
	case replay.MailIn:
		direction = timeline.In
	case replay.MailOut, replay.Answered:
		direction = timeline.Out
	}
	p.lane.Event(direction, "%s", p.words(e))
	return p.lines()
}

// End returns the last lines of the story. The summary follows them.
func (p *ReplayStory) End() string {
	p.lane.ShowEmpty()
	if p.day != "" {
		p.lane.Print("")
	}
	return p.lines()
}

// words describes an entry.
func (p *ReplayStory) words(e replay.Entry) string {
	subject := fmt.Sprintf("%q", plain.Shorten(e.Subject, maxReplayed))
	switch e.Kind {
	case replay.MailIn:
		return arrival(e, subject)
	case replay.Copy:
		return "it is a copy of an earlier mail"
	case replay.Waits:
		return fmt.Sprintf("it waits until %s: %s", e.Until.In(p.zone).Format("15:04"), plain.Line(e.Reason))
	case replay.Control:
		return "it is the command " + strings.ToUpper(e.Text)
	case replay.Phase:
		return fmt.Sprintf("a poll moves the agent from %s to %s", e.Text, e.Phase)
	case replay.Prompt:
		return "the prompt " + plain.Line(e.Subject) + " is due"
	case replay.Turn:
		return "a turn begins: " + subject + otherMessages(e.Count)
	case replay.Stopped:
		return "the turn is stopped: " + subject
	case replay.Tier:
		return fmt.Sprintf("the tier is %s: %s", e.Text, plain.Line(e.Reason))
	case replay.MailOut:
		return fmt.Sprintf("mail to the operator: %q", e.Text)
	}
	text := "answer: " + subject + otherMessages(e.Count)
	if e.Waited > 0 {
		text += ", after " + terminal.Short(e.Waited)
	}
	if e.Cost > 0 {
		text += fmt.Sprintf(", %v", e.Cost)
	}
	return text
}

// arrival describes a mail that came.
func arrival(e replay.Entry, subject string) string {
	text := fmt.Sprintf("mail from %s: %s", plain.Shorten(plain.Line(e.From), maxReplayed), subject)
	switch {
	case e.Gate != "":
		text += ", set aside: " + gateWords(e.Gate)
	case e.Reason != "":
		text += ", undecided: " + plain.Shorten(plain.Line(e.Reason), maxReplayed)
	}
	return text
}

// otherMessages names the other messages of a turn.
func otherMessages(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// ReplayRows returns the summary of a replay: labels and texts.
func ReplayRows(s replay.Summary, zone *time.Location) [][]string {
	rows := [][]string{
		{"mails", replayedMails(s)},
		{"turns", replayedTurns(s)},
		{"waiting", replayedWaits(s)},
		{"mails to you", replayedSent(s)},
		{"polls", fmt.Sprintf("%d", s.Polls)},
		{"phases", replayedPhases(s)},
		{"cost", replayedCost(s)},
		{"assumed", replayedFigures(s.Assumed)},
	}
	from, to := s.From.In(zone).Format("2006-01-02 15:04"), s.Ended.In(zone).Format("2006-01-02 15:04")
	return append([][]string{{"time", from + " to " + to}}, rows...)
}

func replayedMails(s replay.Summary) string {
	aside := 0
	for _, a := range s.Aside {
		aside += a.Count
	}
	return fmt.Sprintf("%d: %s", s.Mails, counts([]count{
		{s.Messages, "message", "messages"}, {s.Controls, "command", "commands"}, {s.Copies, "copy", "copies"}, {aside, "set aside", ""},
		{s.Undecided, "undecided", ""}, {s.Others, "not for this agent", ""},
	}))
}

func replayedTurns(s replay.Summary) string {
	text := fmt.Sprintf("%d, %s", s.Turns, counts([]count{{s.Answers, "answer", "answers"}, {s.Stopped, "stopped", ""}}))
	if s.Prompts > 0 {
		text += fmt.Sprintf("; %d from scheduled prompts", s.Prompts)
	}
	return text
}

func replayedWaits(s replay.Summary) string {
	text := "no mail was answered"
	if w := s.Wait; w.Mails > 0 {
		text = fmt.Sprintf("half of the answers came within %s, 9 of 10 within %s, all within %s", terminal.Short(w.Median), terminal.Short(w.P90), terminal.Short(w.Longest))
	}
	if s.Deferred > 0 {
		text += fmt.Sprintf("; %s waited for a limit or for further mail", terminal.Count(s.Deferred, "message"))
	}
	if s.Unanswered > 0 {
		text += fmt.Sprintf("; %s still waited at the end", terminal.Count(s.Unanswered, "message"))
	}
	return text
}

func replayedSent(s replay.Summary) string {
	all := []count{
		{s.Sent[state.Ack], "ack", "acks"}, {s.Sent[state.Quiet], "quiet mail", "quiet mails"}, {s.Sent[state.Working], `"still working"`, ""},
		{s.Sent[state.Answer], "answer to a command", "answers to commands"},
	}
	var others []state.EffectKind
	for kind := range s.Sent {
		if kind != state.Ack && kind != state.Quiet && kind != state.Working && kind != state.Answer {
			others = append(others, kind)
		}
	}
	slices.Sort(others)
	for _, kind := range others {
		all = append(all, count{s.Sent[kind], string(kind), string(kind) + "s"})
	}
	return cmp.Or(counts(all), "only answers")
}

func replayedPhases(s replay.Summary) string {
	var parts []string
	for _, phase := range []state.Phase{state.IDLE, state.PREP, state.ACTIVE} {
		parts = append(parts, fmt.Sprintf("%s %s", phase, terminal.Short(s.Phases[phase])))
	}
	return strings.Join(parts, ", ")
}

func replayedCost(s replay.Summary) string {
	text := s.Cost.String()
	if len(s.Days) > 0 {
		dear := s.Days[0]
		for _, d := range s.Days {
			if d.Cost > dear.Cost {
				dear = d
			}
		}
		text += fmt.Sprintf(", at most %v on a day, %s", dear.Cost, dear.Day)
	}
	if s.DayBudget > 0 {
		text += fmt.Sprintf("; the budget is %v a day", s.DayBudget)
	}
	return text
}

func replayedFigures(a replay.Assumed) string {
	text := replayedFigure(a.Normal)
	if a.Low != a.Normal {
		text += "; while money is short: " + replayedFigure(a.Low)
	}
	return text + "; assuming that nothing fails"
}

func replayedFigure(f replay.Figure) string {
	ofTime, ofCost := f.Sources()
	text := "a turn takes " + terminal.Short(f.Time)
	if ofTime != ofCost || ofTime == replay.FromFlag {
		text += figureSource(f, ofTime, "--turn-time")
	}
	return text + fmt.Sprintf(" and costs %v", f.Cost) + figureSource(f, ofCost, "--turn-cost")
}

// figureSource tells where a figure comes from.
func figureSource(f replay.Figure, source replay.Source, flag string) string {
	switch {
	case source == replay.FromFlag:
		return " (" + flag + ")"
	case source == replay.FromDefault:
		return " (default)"
	case f.Model == "":
		return fmt.Sprintf(" (median of %s)", terminal.Count(f.Turns, "turn"))
	}
	return fmt.Sprintf(" (median of %s with %s)", terminal.Count(f.Turns, "turn"), plain.Line(f.Model))
}

// ReplayAside returns the mails that were set aside, a row for each gate. explain is the command that
// explains a file. Of an mbox it explains each mail, so the row says which.
func ReplayAside(s replay.Summary, explain func(args ...string) string) [][]string {
	var rows [][]string
	for _, a := range s.Aside {
		row := []string{fmt.Sprint(a.Count), gateWords(a.Gate), ""}
		number, inMbox := strings.CutPrefix(a.Name, a.File+", ")
		switch {
		case inMbox:
			row[2] = number + ": " + explain("--full", a.File)
		case a.File != "":
			row[2] = explain(a.File)
		}
		rows = append(rows, row)
	}
	return rows
}

// ReplayDays returns the cost of each day with a cost.
func ReplayDays(s replay.Summary) [][]string {
	var rows [][]string
	for _, d := range s.Days {
		row := []string{d.Day, d.Cost.String(), ""}
		if s.DayBudget > 0 {
			row[2] = fmt.Sprintf("%d %% of the budget", int64(d.Cost)*100/int64(s.DayBudget))
		}
		rows = append(rows, row)
	}
	return rows
}

// ReplayNotes returns a sentence for each oddity of the mails.
func ReplayNotes(s replay.Summary) []string {
	var notes []string
	for _, n := range []struct {
		count      int
		noun, text string
	}{
		{s.Unreadable, "file", "that cannot be read"},
		{s.Undated, "mail", "without a date: left out"},
		{s.Future, "mail", "with a date in the future: left out"},
		{s.Unordered, "mail", "older than the one before it in an mbox: played at its own date"},
		{s.Undecided, "mail", "undecided: the key of its signature cannot be looked up now, or its file is gone"},
		{s.PromptsLeft, "scheduled prompt", "left out: a replay does not run an `if` program"},
	} {
		if n.count > 0 {
			notes = append(notes, fmt.Sprintf("note: %s %s", terminal.Count(n.count, n.noun), n.text))
		}
	}
	return notes
}

// count is a number of things. many is "" if one serves for all numbers.
type count struct {
	n         int
	one, many string
}

// counts lists the numbers that are not 0.
func counts(all []count) string {
	var parts []string
	for _, c := range all {
		switch {
		case c.n == 0:
		case c.n == 1:
			parts = append(parts, "1 "+c.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", c.n, cmp.Or(c.many, c.one)))
		}
	}
	return strings.Join(parts, ", ")
}
