package demo

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/cycle/timeline"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// play plays the day. Each scene checks its own outcome.
func (s *stage) play(ctx context.Context) error {
	s.Print("A day in the life of @%s. Only the clock is simulated. The mail and mesh\nservers, the crontab and the agent are real and private to this demo.", handle)
	return act(ctx, s.Timeline, []scene{
		{"The agent is installed", s.install},
		{"The operator writes; the agent polls every 30 minutes", s.firstMail},
		{"The operator answers: a conversation", s.secondMail},
		{"Another agent asks something via the mesh", s.peerMessage},
		{"The operator falls silent", s.silence},
		{"A backup script nudges; the agent wakes at once", s.nudge},
		{"Nobody writes", s.prepTimeout},
		{"Another agent nudges; a listener wakes the agent at once", s.meshNudge},
	})
}

// scene is a part of a story.
type scene struct {
	title string
	play  func(context.Context) error
}

// act plays the scenes of a story.
func act(ctx context.Context, t *timeline.Timeline, scenes []scene) error {
	for _, scene := range scenes {
		t.Print("\n%s", scene.title)
		if err := scene.play(ctx); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(scene.title), err)
		}
	}
	t.Print("\nEverything went as designed.")
	return nil
}

func (s *stage) install(ctx context.Context) error {
	if err := s.poll(ctx); err != nil {
		return err
	}
	return s.expect(state.IDLE, "*/30 * * * *")
}

func (s *stage) firstMail(ctx context.Context) error {
	s.Now = s.clock("09:12")
	if err := s.receive("<one@example.com>", "@goulard3120 are you there?", "Is the nightly build green?"); err != nil {
		return err
	}
	if err := s.until(ctx, "09:30"); err != nil {
		return err
	}
	return s.expect(state.PREP, "*/1 * * * *",
		"goulard3120 standing by. what do you need?",
		`You wrote "Is the nightly build green?". Consider it done.`)
}

func (s *stage) secondMail(ctx context.Context) error {
	s.Now = s.clock("09:31").Add(40 * time.Second)
	if err := s.receive("<two@example.com>", "Re: @goulard3120 are you there?", "Then deploy it."); err != nil {
		return err
	}
	if err := s.until(ctx, "09:32"); err != nil {
		return err
	}
	return s.expect(state.ACTIVE, "*/1 * * * *", `You wrote "Then deploy it.". Consider it done.`)
}

func (s *stage) peerMessage(ctx context.Context) error {
	if err := s.until(ctx, "09:34"); err != nil {
		return err
	}
	s.Now = s.clock("09:34").Add(20 * time.Second)
	s.Event(timeline.In, "mesh message from %s: %q", peer, "which commit is live?")
	if _, err := s.peer.Send(ctx, mesh.Message{ID: "q1", To: handle, Text: "which commit is live?", Kind: mesh.KindMessage}); err != nil {
		return err
	}
	if err := s.until(ctx, "09:35"); err != nil {
		return err
	}
	box, err := s.peer.Mailbox(ctx, 0)
	if err != nil {
		return err
	}
	if len(box.Messages) != 1 || box.Messages[0].Kind != mesh.KindReport || box.Messages[0].Correlation != "q1" {
		return fmt.Errorf("%w: the peer's mailbox holds %+v", ErrDeviates, box.Messages)
	}
	s.Event(timeline.Out, "mesh report to %s: %q", peer, box.Messages[0].Text)
	return s.expect(state.ACTIVE, "*/1 * * * *")
}

func (s *stage) silence(ctx context.Context) error {
	if err := s.until(ctx, "09:41"); err != nil {
		return err
	}
	if err := s.expect(state.ACTIVE, "*/1 * * * *"); err != nil {
		return err
	}
	if err := s.until(ctx, "09:42"); err != nil {
		return err
	}
	return s.expect(state.IDLE, "*/30 * * * *", "going quiet -- ping me when you need me")
}

func (s *stage) nudge(ctx context.Context) error {
	if err := s.until(ctx, "10:05"); err != nil {
		return err
	}
	s.Now = s.clock("10:05").Add(7 * time.Second)
	s.Event(timeline.In, "agentstateloop nudge --from backup --reason %q", "the backup failed")
	if err := s.agent.Ring("backup", "the backup failed"); err != nil {
		return err
	}
	if err := s.poll(ctx); err != nil {
		return err
	}
	return s.expect(state.PREP, "*/1 * * * *", "goulard3120 standing by. what do you need?\n\nwoken by backup: the backup failed")
}

func (s *stage) prepTimeout(ctx context.Context) error {
	if err := s.until(ctx, "10:10"); err != nil {
		return err
	}
	if err := s.expect(state.PREP, "*/1 * * * *"); err != nil {
		return err
	}
	if err := s.until(ctx, "10:11"); err != nil {
		return err
	}
	return s.expect(state.IDLE, "*/30 * * * *", "going quiet")
}

// receive puts a mail of the operator into the mailbox.
func (s *stage) receive(id, subject, text string) error {
	raw := fmt.Sprintf("From: The Operator <%s>\r\nTo: %s\r\nSubject: %s\r\nMessage-ID: %s\r\n\r\n%s\r\n", operator, s.mail.Username, subject, id, text)
	s.Event(timeline.In, "mail from the operator, %q: %q", subject, text)
	_, err := s.mail.Append([]byte(raw), s.Now)
	return err
}

// until plays cron up to and including a minute of the day.
func (s *stage) until(ctx context.Context, hhmm string) error { return until(ctx, s.Timeline, hhmm, s) }

// until plays the cron of some agents up to and including a minute of the day. It reads their
// crontabs and polls whenever an agent's line fires.
func until(ctx context.Context, t *timeline.Timeline, hhmm string, agents ...*stage) error {
	end := clock(t, hhmm)
	for next := t.Now.Truncate(time.Minute).Add(time.Minute); !next.After(end); next = next.Add(time.Minute) {
		for _, s := range agents {
			fires, err := s.fires(next)
			if err != nil {
				return err
			}
			if !fires {
				continue
			}
			t.Now = next
			if err := s.poll(ctx); err != nil {
				return err
			}
		}
	}
	t.Now = end
	return nil
}

// fires reports whether the installed crontab line fires at this minute.
func (s *stage) fires(at time.Time) (bool, error) {
	line, err := s.installed()
	if err != nil {
		return false, err
	}
	var every int
	if _, err := fmt.Sscanf(line, "*/%d * * * *", &every); err != nil {
		return false, fmt.Errorf("%w: the crontab line is %q", ErrDeviates, line)
	}
	return at.Minute()%every == 0, nil
}

func (s *stage) installed() (string, error) {
	table, err := os.ReadFile(s.table)
	if err != nil {
		return "", err
	}
	lines := cron.Find(table, s.handle)
	if len(lines) != 1 {
		return "", fmt.Errorf("%w: the crontab has %d lines of the agent", ErrDeviates, len(lines))
	}
	return lines[0], nil
}

// poll runs one cycle, as cron would, and prints its effects.
func (s *stage) poll(ctx context.Context) error {
	if s.loop != nil {
		s.agent.Turn.Command = s.loop()
	}
	report, err := s.agent.Poll(ctx, cycle.PollOptions{})
	if err != nil {
		return err
	}
	if len(report.Failed) > 0 {
		return fmt.Errorf("%w: %s failed: %s", ErrDeviates, report.Failed[0].Source, report.Failed[0].Reason)
	}
	return s.showPoll(report)
}

// expect returns an error unless the phase, the crontab line and the mails sent since the last
// call match the story.
func (s *stage) expect(phase state.Phase, schedule string, mails ...string) error {
	now, err := s.agent.Store.Read()
	if err != nil {
		return err
	}
	if now.Phase != phase {
		return fmt.Errorf("%w: the phase is %s, want %s", ErrDeviates, now.Phase, phase)
	}
	if !strings.HasPrefix(s.line, schedule+" ") {
		return fmt.Errorf("%w: the crontab line is %q, want %s", ErrDeviates, s.line, schedule)
	}
	got := s.takeMailed()
	if len(got) != len(mails) {
		return fmt.Errorf("%w: it mailed %q, want %q", ErrDeviates, got, mails)
	}
	for i := range mails {
		if got[i] != mails[i] {
			return fmt.Errorf("%w: it mailed %q, want %q", ErrDeviates, got[i], mails[i])
		}
	}
	return nil
}
