package commands

import (
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
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
		Description: `Each row has a number, which every inbox command takes, the time, the sender,
the subject or the first words, the files, and how it stands with the message.
A number never comes to mean another message.

A mail with a number like f2 is not fetched yet: it is large, or the server
lists it and does not hand it out. That is tried for as long as the mail is in
the mailbox; inbox drop f2 ends it.

With --quarantined, lists the messages in quarantine instead, with numbers
like q3: first why, then the sender (not proved) and the subject. inbox show q3
shows the evidence, and inbox release q3 lets it in.

Example:
  agentstateloop inbox list
  agentstateloop inbox list --quarantined --json`,
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
	rows, s, err := a.View().Listing()
	if err != nil {
		return err
	}
	words := standing{s, a.Policy, k.now()}
	for i := range rows {
		rows[i].State = words.of(rows[i])
	}
	if c.Bool("json") {
		return k.out.JSON(rows)
	}
	var cells [][]string
	for _, row := range rows {
		cells = append(cells, []string{numberOf(row), k.clock(row.At), whoSent(row), subjectOf(row), filesOf(row), row.State})
	}
	return k.out.Grid(listColumns, cells)
}

// listColumns are the columns of the lists: number, time, sender, subject, files, and the rest.
var listColumns = []terminal.Column{{}, {}, {Least: 12}, {Least: 16}, {Least: 9}, {}}

// quarantined lists the items in quarantine.
func (k inboxListCmd) quarantined(c *cli.Context, a *cycle.Agent) error {
	rows, err := a.View().ListQuarantine()
	if err != nil {
		return err
	}
	words := standing{now: k.now()}
	for i := range rows {
		rows[i].State = words.of(rows[i])
	}
	if c.Bool("json") {
		return k.out.JSON(rows)
	}
	var cells [][]string
	for _, row := range rows {
		cells = append(cells, []string{numberOf(row), k.clock(row.At), value(row.Reason), whoSent(row), filesOf(row), subjectOf(row)})
	}
	if err := k.out.Grid([]terminal.Column{{}, {}, {Least: 12}, {Least: 16}, {Least: 9}, {}}, cells); err != nil {
		return err
	}
	s, err := a.Store.Read()
	if err == nil && s.Unkept > 0 {
		k.out.Warn("quarantine is full, and %s more came; mails among them are still in the mailbox, unread", terminal.Count(s.Unkept, "item"))
	}
	return err
}

// clock formats the time of a row, or "-".
func (k inboxListCmd) clock(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return terminal.Clock(*at, k.now())
}

// numberOf returns the number of a row, or its key if it has no number.
func numberOf(row view.InboxRow) string {
	if row.Number == nil {
		return plain.Line(row.Key)
	}
	return *row.Number
}
