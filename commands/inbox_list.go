package commands

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

type inboxListCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func inboxListCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list the messages that wait, in order of arrival",
		Description: `A message that waits for a time has the time and the reason in its row. The
operator's mails above [budget] mails_an_hour wait for the hour to hold fewer.

A mail that the server lists and does not hand out has a row without a number:
its key, since when, how often it was tried, when it is tried again, and why. It
is tried for as long as it is in the mailbox; inbox drop KEY ends that. So has a
large mail that is being fetched.

With --quarantined, lists the messages in quarantine instead: the key, the
sender (not proved) and the reason of each.

Example:
  agentstateloop inbox list --json
  agentstateloop inbox list --quarantined`,
		Flags:  []cli.Flag{switchFlag("quarantined", "list the messages in quarantine, and why")},
		Action: inboxListCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

func (k inboxListCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	if c.Bool("quarantined") {
		return k.quarantined(c, a)
	}
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(listed(s))
	}
	w := k.out.Table()
	for _, m := range s.Inbox {
		status := string(m.Status)
		if m.Status == state.Deferred {
			status += " until " + terminal.Clock(m.NextRetryAt, k.now()) + because(plain.Line(m.Reason)) + because(plain.Line(m.Title))
		}
		if m.Status == state.Deferred && !k.now().Before(m.NextRetryAt) {
			status += held(s.SelfHeld(m, a.Policy, k.now()))
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", m.Seq, terminal.Clock(m.At, k.now()), m.Source, plain.Line(m.From), status)
	}
	for _, f := range s.FailingMails() {
		fmt.Fprintf(w, "-\t%s\t%s\t%s\t%s\n", terminal.Clock(f.Since, k.now()), state.Mail, plain.Line(f.Key), failingStatus(f, k.now()))
	}
	for _, key := range s.LargeMails() {
		fmt.Fprintf(w, "-\t-\t%s\t%s\tlarge, is being fetched\n", state.Mail, plain.Line(key))
	}
	return w.Flush()
}

// largeOutput is the JSON output for a large mail that is being fetched. It has no
// row in the inbox yet.
type largeOutput struct {
	Key    string       `json:"key"`
	Source state.Source `json:"source"`
	Status string       `json:"status"` // "fetching"
}

// failingOutput is the JSON output for a mail that cannot be fetched. It has no row
// in the inbox yet.
type failingOutput struct {
	Key         string       `json:"key"`
	Source      state.Source `json:"source"`
	Status      string       `json:"status"` // "failing"
	Since       time.Time    `json:"since"`
	Tries       int          `json:"tries"`
	NextRetryAt time.Time    `json:"next_retry_at"`
	Reason      string       `json:"reason"`
}

func failingJSON(f state.FailingMail) failingOutput {
	return failingOutput{f.Key, state.Mail, "failing", f.Since, f.Tries, f.Next, f.Reason}
}

// listed returns the messages that wait, the mails that cannot be fetched, and those
// that are being fetched.
func listed(s state.State) []any {
	rows := []any{}
	for _, m := range s.Inbox {
		rows = append(rows, m)
	}
	for _, f := range s.FailingMails() {
		rows = append(rows, failingJSON(f))
	}
	for _, key := range s.LargeMails() {
		rows = append(rows, largeOutput{key, state.Mail, "fetching"})
	}
	return rows
}

// failingStatus says how far the tries of a mail that cannot be fetched have come.
func failingStatus(f state.FailingMail, now time.Time) string {
	return fmt.Sprintf("cannot be fetched, %s, again at %s%s", terminal.Count(f.Tries, "failure"), terminal.Clock(f.Next, now), because(plain.Line(f.Reason)))
}

// quarantined lists the items in quarantine.
func (k inboxListCmd) quarantined(c *cli.Context, a *cycle.Agent) error {
	items, err := a.Quarantine()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(append([]quarantine.Item{}, items...))
	}
	w := k.out.Table()
	for _, q := range items {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s: %s\n", plain.Line(q.Key), terminal.Clock(q.At, k.now()), plain.Line(q.From), q.Gate, plain.Line(q.Reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	s, err := a.Store.Read()
	if err == nil && s.Unkept > 0 {
		k.out.Warn("quarantine is full, and %s more came; mails among them are still in the mailbox, unread", terminal.Count(s.Unkept, "item"))
	}
	return err
}
