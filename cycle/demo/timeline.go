package demo

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mail/message"
)

// timeline prints the story, and is the clock of all its agents.
type timeline struct {
	out     io.Writer
	now     time.Time
	printed string // the last printed clock time
}

// print prints a line.
func (t *timeline) print(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

// clock returns a time of the day of the demo.
func (t *timeline) clock(hhmm string) time.Time {
	at, err := time.Parse("15:04", hhmm)
	if err != nil {
		panic(err) // a mistake in the story
	}
	return time.Date(t.now.Year(), t.now.Month(), t.now.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
}

// The directions of an event on the timeline.
const (
	in      = "->"
	out     = "<-"
	between = "  "
)

// event prints one event with the clock, the host, the phase and the direction.
func (s *stage) event(direction, format string, args ...any) {
	s.showEmpty()
	clock := s.now.Format("15:04")
	if clock == s.printed {
		clock = "     "
	} else {
		s.printed = clock
	}
	fmt.Fprintf(s.out, "  %s  %s  %s %s\n", clock, s.where(), direction, fmt.Sprintf(format, args...))
}

// where returns the agent's host and phase for the timeline.
func (s *stage) where() string {
	if s.host == "" {
		return fmt.Sprintf("%-6s", s.phase)
	}
	return fmt.Sprintf("%-5s  %-6s", s.host, s.phase)
}

// cutLine is the number of bytes shown of a crontab line.
const cutLine = 48

// showEmpty prints the number of empty polls, if there were any.
func (s *stage) showEmpty() {
	if s.empty > 0 {
		fmt.Fprintf(s.out, "    ...  %s     polls that found nothing: %d\n", s.where(), s.empty)
		s.empty = 0
	}
}

// showPoll prints the effects of a poll: a change of phase, the mails, and a change of the
// crontab line.
func (s *stage) showPoll(r cycle.Report) error {
	line, err := s.installed()
	if err != nil {
		return err
	}
	if !r.Found() && line == s.line {
		s.empty++
		return nil
	}
	s.showEmpty() // the empty polls belong to the earlier phase
	s.phase = r.After
	if r.Before != r.After {
		s.event(between, "a poll takes the agent from %s to %s", r.Before, r.After)
	}
	for _, text := range s.sent() {
		s.mailed = append(s.mailed, text)
		s.event(out, "mail to the operator: %q", text)
	}
	if line != s.line {
		s.line = line
		s.event(between, "crontab: %.*s…", cutLine, line)
	}
	return nil
}

// sent returns the texts of the mails sent since its last call.
func (s *stage) sent() []string {
	all := s.mail.Sent()
	var texts []string
	for _, m := range all[s.seen:] {
		texts = append(texts, message.ReadContent(bytes.NewReader(m.Raw), message.Sent{}).Full)
	}
	s.seen = len(all)
	return texts
}

// takeMailed returns the mails printed since its last call.
func (s *stage) takeMailed() []string {
	mailed := s.mailed
	s.mailed = nil
	return mailed
}
