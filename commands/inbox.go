package commands

import (
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

func inboxCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "inbox",
		Usage: "list and manage incoming messages",
		Subcommands: []*cli.Command{
			inboxListCommand(p),
			inboxShowCommand(p),
			inboxNextCommand(p),
			inboxDoneCommand(p),
			inboxRetryCommand(p),
			inboxDropCommand(p),
			inboxReleaseCommand(p),
		},
	}
}

// inboxListOptions are the flags of inbox list.
type inboxListOptions struct{ quarantined bool }

func inboxListCommand(p *program) *cli.Command {
	var o inboxListOptions
	return &cli.Command{
		Name:  "list",
		Usage: "list the pending messages in order of arrival",
		Description: `Each row has a number, which every inbox command accepts, the time, the sender,
the subject or the first words, the files, and the status of the message.
Numbers are never reused.

A mail with a number like f2 is not fetched yet: it is large, or the server
lists it but does not deliver it. Polls retry as long as the mail is in the
mailbox; inbox drop f2 ends the retries.

With --quarantined, lists the messages in quarantine instead, with numbers like
q3: first the reason, then the sender (not proved) and the subject. inbox show
q3 shows the evidence, and inbox release q3 releases the message.

Examples:
  agentstateloop inbox list
  agentstateloop inbox list --quarantined --json`,
		Flags:  []cli.Flag{switchFlag(&o.quarantined, "quarantined", "list the messages in quarantine")},
		Action: p.agentAction(0, 0, o.run),
	}
}

func (o *inboxListOptions) run(c *call, a *cycle.Agent) error {
	if o.quarantined {
		return listQuarantine(c, a)
	}
	rows, s, err := a.View().Listing()
	if err != nil {
		return err
	}
	return c.printRows(rows, present.InboxStatus{State: s, Policy: a.Policy, Now: c.now()}, func(row view.InboxRow) []string {
		return []string{present.InboxNumber(row), c.clock(row.At), present.InboxSender(row), present.InboxSubject(row), present.InboxFiles(row), row.State}
	})
}

// listQuarantine lists the items in quarantine.
func listQuarantine(c *call, a *cycle.Agent) error {
	rows, err := a.View().ListQuarantine()
	if err != nil {
		return err
	}
	err = c.printRows(rows, present.InboxStatus{Now: c.now()}, func(row view.InboxRow) []string {
		return []string{present.InboxNumber(row), c.clock(row.At), present.OneLine(row.Reason), present.InboxSender(row), present.InboxFiles(row), present.InboxSubject(row)}
	})
	if err != nil || c.json {
		return err
	}
	s, err := a.Store.Read()
	if err == nil && s.Unkept > 0 {
		c.out.Warn("quarantine is full: %s rejected without a copy; mails among them are still in the mailbox", terminal.Count(s.Unkept, "item"))
	}
	return err
}

// printRows prints the rows of a list, with their status in words. cells returns the six columns
// of a row.
func (c *call) printRows(rows []view.InboxRow, status present.InboxStatus, cells func(view.InboxRow) []string) error {
	var lines [][]string
	for i := range rows {
		rows[i].State = status.Of(rows[i])
		lines = append(lines, cells(rows[i]))
	}
	if c.json {
		return c.out.JSON(rows)
	}
	return c.out.Grid([]terminal.Column{{}, {}, {Least: 12}, {Least: 16}, {Least: 9}, {}}, lines)
}

// clock formats the time of a row, or "-".
func (c *call) clock(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return terminal.Clock(*at, c.now())
}

func inboxNextCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "next",
		Usage: "take the next message to answer it yourself",
		Description: `For runner = "none". Prints the message, its turn, and the paths of its files;
exits 1 if no message is pending. End the turn with inbox done within
turn.timeout. With [turn] collect it takes all messages that one sender has
written so far: one answer is for all of them.

Example:
  agentstateloop inbox next --json`,
		Action: p.agentAction(0, 0, nextMessage),
	}
}

func nextMessage(c *call, a *cycle.Agent) error {
	m, err := a.Next(c.ctx)
	if err != nil {
		return err
	}
	if c.json {
		return c.out.JSON(pulledOf(m))
	}
	c.out.Printf("number: %s\nturn:  %s\nepoch: %d\nfrom:  %s (%s)\n", m.Number, m.TurnID, m.Epoch, plain.Line(m.From), m.Source)
	if m.Note != "" {
		c.out.Printf("note:  %s\n", plain.Line(m.Note))
	}
	for _, f := range m.ResultFields {
		c.out.Printf("field: %s\n", plain.Line(f.String()))
	}
	printFiles(&c.out, "file:  ", m.Files)
	for _, one := range m.Earlier {
		c.out.Printf("\nearlier, %s:\n", one.At.Format(time.RFC3339))
		printFiles(&c.out, "file:  ", one.Files)
		c.out.Printf("%s\n", strings.TrimSuffix(terminal.Printable(one.Text), "\n"))
	}
	if len(m.Earlier) > 0 {
		c.out.Printf("\nthe latest; one answer for all:")
	}
	c.out.Printf("\n%s\n", strings.TrimSuffix(terminal.Printable(m.Text), "\n"))
	return nil
}

// pulledOutput is the JSON output of inbox next.
type pulledOutput struct {
	TurnID       string               `json:"turn_id"`
	Epoch        uint64               `json:"turn_epoch"`
	Key          string               `json:"key"`
	Source       state.Source         `json:"source"`
	Number       string               `json:"number"` // of the message
	From         string               `json:"from"`
	Text         string               `json:"text"`
	Note         string               `json:"note"`
	ResultFields []resultFieldOutput  `json:"result_fields"` // requested by the sender
	Earlier      []earlierOutput      `json:"earlier"`
	Files        []files.ReceivedFile `json:"files"`
}

// earlierOutput is an earlier message with the same answer.
type earlierOutput struct {
	Key   string               `json:"key"`
	At    time.Time            `json:"at"`
	Text  string               `json:"text"`
	Files []files.ReceivedFile `json:"files"`
}

// resultFieldOutput is a result field that a sender asks for.
type resultFieldOutput struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // "" for any type
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// pulledOf converts a taken message to its JSON output.
func pulledOf(m cycle.Pulled) pulledOutput {
	v := pulledOutput{
		TurnID: m.TurnID, Epoch: m.Epoch, Number: m.Number, Key: m.Key, Source: m.Source, From: m.From, Text: m.Text, Note: m.Note,
		ResultFields: resultFieldsOf(m.ResultFields), Earlier: []earlierOutput{}, Files: orEmpty(m.Files),
	}
	for _, one := range m.Earlier {
		v.Earlier = append(v.Earlier, earlierOutput{Key: one.Key, At: one.At, Text: one.Text, Files: orEmpty(one.Files)})
	}
	return v
}

func resultFieldsOf(fields mesh.ResultFields) []resultFieldOutput {
	all := []resultFieldOutput{}
	for _, f := range fields {
		all = append(all, resultFieldOutput(f))
	}
	return all
}
