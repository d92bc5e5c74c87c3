package commands

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

type inboxShowCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func inboxShowCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show one message, by its number or key",
		ArgsUsage: "NUMBER|KEY",
		Description: `Shows what inbox list has a number for, and by its number or key also a message
that is done, as long as it is kept. A message that is done is shown with what
its turn handed back, and one that is not with where it stands. One in
quarantine is shown with the reason and the evidence for it.

With --save it writes the list that came with the message into a folder, under
their senders' names where these are safe. It overwrites nothing.

Example:
  agentstateloop inbox show 12
  agentstateloop inbox show 12 --save ~/received
  agentstateloop inbox show q3`,
		Flags:  []cli.Flag{&cli.StringFlag{Name: "save", TakesFile: true, Usage: "write the files that came along into the folder `DIR`"}},
		Action: inboxShowCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

// messageOutput is the JSON output of inbox show.
type messageOutput struct {
	view.InboxRow
	Text    string       `json:"text"`
	Receipt view.Receipt `json:"receipt"`

	// Deliverable is the result of the message's turn, or null.
	Deliverable *cycle.Deliverable   `json:"deliverable"`
	Files       []files.ReceivedFile `json:"files"`
	Problems    []string             `json:"problems"` // of a mail's structure
	LeftOut     *string              `json:"left_out"` // of the text that the agent is told
}

func (k inboxShowCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	which := c.Args().First()
	key, err := a.View().Key(which)
	if err != nil {
		return err
	}
	q, err := a.View().QuarantinedItem(key)
	if !errors.Is(err, quarantine.ErrNotQuarantined) {
		if err != nil {
			return err
		}
		return k.printQuarantined(c, a, q)
	}
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	words := standing{s, a.Policy, k.now()}
	if row, unfetched := view.UnfetchedRow(s, key); unfetched {
		row.State = words.of(row)
		return k.printUnfetched(c, row)
	}
	m, err := findMessage(a, which, key)
	if err != nil {
		return err
	}
	v := messageOutput{InboxRow: a.View().InboxRow(m)}
	v.State = words.of(v.InboxRow)
	if v.Text, err = readPayload(a, m.Key, m.Source, m.Payload, m.Sum); err != nil {
		return err
	}
	if v.Receipt, err = a.View().Receipt(m); err != nil {
		return err
	}
	if v.Deliverable, err = a.DeliverableOf(m.Key); err != nil {
		return err
	}
	came, _ := a.FilesOf(m) // the text reports a bad payload
	if err := saveFiles(c, which, &came); err != nil {
		return err
	}
	v.Files, v.Problems, v.LeftOut, v.Text = came.Files, came.Problems, orNull(came.LeftOut), withInstead(v.Text, came)
	if c.Bool("json") {
		return k.out.JSON(v)
	}
	if c.IsSet("save") {
		printFiles(k.out, "saved:   ", v.Files)
		return nil
	}
	k.out.Printf("number:  %s\nkey:     %s\nfrom:    %s (%s)\nat:      %s\nstatus:  %s\n",
		numberOf(v.InboxRow), plain.Line(m.Key), plain.Line(m.From), m.Source, terminal.Clock(m.At, k.now()), m.Status)
	if !m.Status.Ended() {
		k.out.Printf("state:   %s\n", v.State)
	}
	if v.Subject != "" && (m.Source == state.Mail || m.Title != "") {
		k.out.Printf("subject: %s\n", plain.Line(v.Subject))
	}
	if m.Trace != "" {
		k.out.Printf("chain:   %s\n", plain.Line(m.Trace))
	}
	printCame(k.out, which, came)
	printReceipt(k.out, v.Receipt, k.now())
	k.printText(v.Text)
	if d := v.Deliverable; d != nil {
		k.out.Printf("\nanswered (%s):\n", d.Outcome)
		k.printText(d.Whole())
	} else if !m.Status.Ended() {
		k.out.Printf("\nno answer yet: %s\n", sentence(v.State))
	}
	return nil
}

// printUnfetched shows an unfetched mail.
func (k inboxShowCmd) printUnfetched(c *cli.Context, row view.InboxRow) error {
	if c.Bool("json") {
		return k.out.JSON(row)
	}
	k.out.Printf("number:  %s\nkey:     %s\n", numberOf(row), plain.Line(row.Key))
	if row.Since != nil {
		k.out.Printf("since:   %s\n", terminal.Clock(*row.Since, k.now()))
	}
	k.out.Printf("status:  %s\n", row.State)
	if row.Status == view.RowFailing {
		k.out.Printf("\nThe mail server lists it and does not hand it out. It is tried for as long as it\nis in the mailbox; %s inbox drop %s ends that.\n", name, numberOf(row))
	}
	return nil
}

// quarantineOutput is the JSON output of inbox show for an item in quarantine.
type quarantineOutput struct {
	view.InboxRow
	Field    *string              `json:"field"` // name of the field with the evidence
	Text     string               `json:"text"`
	Files    []files.ReceivedFile `json:"files"`
	Problems []string             `json:"problems"` // of a mail's structure
	LeftOut  *string              `json:"left_out"` // of the text that the agent is told
}

// printQuarantined shows an item in quarantine.
func (k inboxShowCmd) printQuarantined(c *cli.Context, a *cycle.Agent, q quarantine.Item) error {
	row, err := a.View().QuarantineRow(q)
	if err != nil {
		return err
	}
	row.State = standing{now: k.now()}.of(row)
	came := a.FilesOfQuarantined(q)
	if err := saveFiles(c, c.Args().First(), &came); err != nil {
		return err
	}
	v := quarantineOutput{InboxRow: row, Field: a.View().EvidenceField(q), Files: came.Files, Problems: came.Problems, LeftOut: orNull(came.LeftOut)}
	if v.Text, err = readPayload(a, q.Key, q.Source, q.Payload, q.Sum); err != nil {
		return err
	}
	v.Text = withInstead(v.Text, came)
	if c.Bool("json") {
		return k.out.JSON(v)
	}
	if c.IsSet("save") {
		printFiles(k.out, "saved:   ", v.Files)
		return nil
	}
	k.out.Printf("number:  %s\nkey:     %s\nfrom:    %s (%s, not proved)\nat:      %s\nstatus:  quarantined by gate %s: %s\n",
		numberOf(row), plain.Line(q.Key), plain.Line(q.From), q.Source, terminal.Clock(q.At, k.now()), q.Gate, value(row.Reason))
	switch {
	case v.Field != nil:
		k.out.Printf("field:   %s: %s\n", *v.Field, value(row.Evidence))
	case row.Evidence != nil:
		k.out.Printf("found:   %s\n", value(row.Evidence))
	}
	if q.Subject != "" {
		k.out.Printf("subject: %s\n", plain.Line(q.Subject))
	}
	printCame(k.out, c.Args().First(), came)
	k.printText(v.Text)
	return nil
}

func (k inboxShowCmd) printText(text string) {
	k.out.Printf("\n%s\n", strings.TrimSuffix(terminal.Printable(text), "\n"))
}

// readPayload returns the text of the message with that key. For a damaged payload it returns a
// note instead.
func readPayload(a *cycle.Agent, key string, source state.Source, file, sum string) (text string, err error) {
	raw, err := a.Store.ReadSummed(file, sum)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the text of %s is gone: it was pruned (keep in [agent]), or removed", key)
	}
	if errors.Is(err, store.ErrDamaged) {
		return "(not shown: " + err.Error() + ")", nil
	}
	if err != nil {
		return "", fmt.Errorf("read message: %w", err)
	}
	if source != state.Mail {
		return string(raw), nil
	}
	return message.ReadContent(bytes.NewReader(raw), message.Sent{}).Full, nil
}
