package commands

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/act"
	"agentstateloop/commands/present"
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

// inboxShowOptions are the flags of inbox show.
type inboxShowOptions struct{ save string }

func inboxShowCommand(p *program) *cli.Command {
	var o inboxShowOptions
	return &cli.Command{
		Name:      "show",
		Usage:     "show one message",
		ArgsUsage: "NUMBER|KEY",
		Description: `Takes any number from inbox list, and the number or key of a finished message as
long as it is stored. A finished message is shown with its answer, a pending one
with its status. One in quarantine is shown with the reason and the evidence.

With --save it writes the files of the message into a folder, under the sender's
file names where these are safe. It overwrites nothing.

Examples:
  agentstateloop inbox show 12
  agentstateloop inbox show 12 --save ~/received
  agentstateloop inbox show q3`,
		Flags:  []cli.Flag{&cli.StringFlag{Name: "save", TakesFile: true, Usage: "write the files of the message into the folder `DIR`", Destination: &o.save}},
		Action: p.agentAction(1, 1, o.run),
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
	Why         *string              `json:"why"`      // why a mail was let in, as explain tells it
}

func (o *inboxShowOptions) run(c *call, a *cycle.Agent) error {
	which := c.arg(0)
	key, err := a.View().Key(which)
	if err != nil {
		return err
	}
	q, err := a.View().QuarantinedItem(key)
	if !errors.Is(err, quarantine.ErrNotQuarantined) {
		if err != nil {
			return err
		}
		return o.printQuarantined(c, a, q)
	}
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	words := present.InboxStatus{State: s, Policy: a.Policy, Now: c.now()}
	if row, unfetched := view.UnfetchedRow(s, key); unfetched {
		row.State = words.Of(row)
		return printUnfetched(c, row)
	}
	m, err := act.FindMessage(a, which, key)
	if err != nil {
		return err
	}
	v := messageOutput{InboxRow: a.View().InboxRow(m)}
	v.State = words.Of(v.InboxRow)
	if v.Text, err = readPayload(a, m.Key, m.Source, m.Payload, m.Sum); err != nil {
		return err
	}
	v.Why = whyLetIn(a, m)
	if v.Receipt, err = a.View().Receipt(m); err != nil {
		return err
	}
	if v.Deliverable, err = a.DeliverableOf(m.Key); err != nil {
		return err
	}
	attached, _ := a.FilesOf(m) // the text reports a bad payload
	if err := o.saveFiles(c, which, &attached); err != nil {
		return err
	}
	v.Files, v.Problems, v.LeftOut, v.Text = attached.Files, attached.Problems, orNull(attached.LeftOut), textOrNote(v.Text, attached)
	if c.json {
		return c.out.JSON(v)
	}
	if c.given(&o.save) != "" {
		printFiles(&c.out, "saved:   ", v.Files)
		return nil
	}
	c.out.Printf("number:  %s\nkey:     %s\nfrom:    %s (%s)\nat:      %s\nstatus:  %s\n",
		present.InboxNumber(v.InboxRow), plain.Line(m.Key), plain.Line(m.From), m.Source, terminal.Clock(m.At, c.now()), m.Status)
	if !m.Status.Ended() {
		c.out.Printf("state:   %s\n", v.State)
	}
	if v.Subject != "" && (m.Source == state.Mail || m.Title != "") {
		c.out.Printf("subject: %s\n", plain.Line(v.Subject))
	}
	if v.Why != nil {
		c.out.Printf("why:     %s\n", *v.Why)
	}
	if m.Trace != "" {
		c.out.Printf("chain:   %s\n", plain.Line(m.Trace))
	}
	printAttached(&c.out, which, attached)
	c.out.Printf("receipt: %s\n", present.Receipt(v.Receipt, c.now()))
	c.printText(v.Text)
	if d := v.Deliverable; d != nil {
		c.out.Printf("\nanswered (%s):\n", d.Outcome)
		c.printText(d.Whole())
	} else if !m.Status.Ended() {
		c.out.Printf("\nno answer yet: %s\n", present.WithSubject(v.State))
	}
	return nil
}

// printUnfetched shows an unfetched mail.
func printUnfetched(c *call, row view.InboxRow) error {
	if c.json {
		return c.out.JSON(row)
	}
	c.out.Printf("number:  %s\nkey:     %s\n", present.InboxNumber(row), plain.Line(row.Key))
	if row.Since != nil {
		c.out.Printf("since:   %s\n", terminal.Clock(*row.Since, c.now()))
	}
	c.out.Printf("status:  %s\n", row.State)
	if row.Status == view.RowFailing {
		c.out.Printf("\nThe mail server lists this mail but does not deliver it. Polls retry as long as\nthe mail is in the mailbox; %s inbox drop %s ends the retries.\n", name, present.InboxNumber(row))
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
	Why      *string              `json:"why"`      // why it was set aside, as explain tells it
}

// printQuarantined shows an item in quarantine.
func (o *inboxShowOptions) printQuarantined(c *call, a *cycle.Agent, q quarantine.Item) error {
	row, err := a.View().QuarantineRow(q)
	if err != nil {
		return err
	}
	row.State = present.InboxStatus{Now: c.now()}.Of(row)
	attached := a.FilesOfQuarantined(q)
	if err := o.saveFiles(c, c.arg(0), &attached); err != nil {
		return err
	}
	v := quarantineOutput{InboxRow: row, Field: a.View().EvidenceField(q), Files: attached.Files, Problems: attached.Problems, LeftOut: orNull(attached.LeftOut)}
	if v.Text, err = readPayload(a, q.Key, q.Source, q.Payload, q.Sum); err != nil {
		return err
	}
	v.Text, v.Why = textOrNote(v.Text, attached), orNull(present.WhyQuarantined(row, v.Field))
	if c.json {
		return c.out.JSON(v)
	}
	if c.given(&o.save) != "" {
		printFiles(&c.out, "saved:   ", v.Files)
		return nil
	}
	c.out.Printf("number:  %s\nkey:     %s\nfrom:    %s (%s, not proved)\nat:      %s\nstatus:  quarantined by gate %s: %s\n",
		present.InboxNumber(row), plain.Line(q.Key), plain.Line(q.From), q.Source, terminal.Clock(q.At, c.now()), q.Gate, present.OneLine(row.Reason))
	switch {
	case v.Field != nil:
		c.out.Printf("field:   %s: %s\n", *v.Field, present.OneLine(row.Evidence))
	case row.Evidence != nil:
		c.out.Printf("found:   %s\n", present.OneLine(row.Evidence))
	}
	if q.Subject != "" {
		c.out.Printf("subject: %s\n", plain.Line(q.Subject))
	}
	c.out.Printf("why:     %s\n", *v.Why)
	printAttached(&c.out, c.arg(0), attached)
	c.printText(v.Text)
	return nil
}

// whyLetIn tells why a mail was let in, or returns nil if m is not a mail or its bytes are damaged.
func whyLetIn(a *cycle.Agent, m state.Message) *string {
	if m.Source != state.Mail {
		return nil
	}
	raw, err := a.Store.ReadSummed(m.Payload, m.Sum)
	if err != nil {
		return nil
	}
	e, err := a.EvidenceOf(raw)
	if err != nil {
		return nil
	}
	by, err := a.View().LetInBy(m.Key)
	if err != nil {
		return nil
	}
	return orNull(present.WhyLetIn(e, by))
}

func (c *call) printText(text string) {
	c.out.Printf("\n%s\n", strings.TrimSuffix(terminal.Printable(text), "\n"))
}

// readPayload returns the text of the message with that key. For a damaged payload it returns a
// note instead.
func readPayload(a *cycle.Agent, key string, source state.Source, file, sum string) (text string, err error) {
	raw, err := a.Store.ReadSummed(file, sum)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the text of %s was pruned (keep in [agent]) or removed", key)
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

// printFiles prints the files of a message, one per line after label.
func printFiles(out *terminal.Output, label string, files []files.ReceivedFile) {
	for _, f := range files {
		switch {
		case f.Missing != "":
			out.Printf("%s%s is missing: %s\n", label, plain.Line(f.Name), plain.Line(f.Missing))
		case f.Path == nil:
			out.Printf("%s%s\n", label, f.Line())
		default:
			out.Printf("%s%s: %s\n", label, f.Line(), printablePath(*f.Path))
		}
	}
}

// printablePath returns a path as one line. It keeps a safe file name unchanged, because the name
// may contain joiners that belong to its spelling.
func printablePath(path string) string {
	if base := filepath.Base(path); base != "" {
		if kept, ok := plain.FileName(base); ok && kept == base {
			return filepath.Join(plain.Line(filepath.Dir(path)), base)
		}
	}
	return plain.Line(path)
}

// maxShownFiles limits the files that inbox show prints. JSON has all of them.
const maxShownFiles = 50

// printAttached prints the rest of a message besides its text: its files, how to save those that are
// not in a file, and the problems of its structure.
func printAttached(out *terminal.Output, which string, attached files.Attachments) {
	printFiles(out, "file:    ", attached.Files[:min(len(attached.Files), maxShownFiles)])
	if more := len(attached.Files) - maxShownFiles; more > 0 {
		out.Printf("         and %d more\n", more)
	}
	for _, f := range attached.Files {
		if f.Path == nil && f.Missing == "" {
			out.Printf("         to save them: %s inbox show %s --save DIR\n", name, plain.Line(which))
			break
		}
	}
	if attached.LeftOut != "" {
		out.Printf("left out: %s; the agent has the full text, as below, in full.txt\n", attached.LeftOut)
	}
	for _, p := range attached.Problems {
		out.Printf("problem: %s\n", plain.Line(p))
	}
}

// textOrNote returns the text of a message, or a note for a mail without a text.
func textOrNote(text string, attached files.Attachments) string {
	switch {
	case attached.Instead == "":
		return text
	case text == "":
		return attached.Instead
	}
	return attached.Instead + "\n\n" + text
}

// saveFiles saves the files of a message if the caller uses --save.
func (o *inboxShowOptions) saveFiles(c *call, which string, attached *files.Attachments) error {
	if c.given(&o.save) == "" {
		return nil
	}
	if o.save == "" {
		return terminal.Usagef("", "--save needs a folder")
	}
	if len(attached.Files) == 0 {
		return fmt.Errorf("%s has no files to save", plain.Line(which))
	}
	err := attached.Save(o.save)
	if errors.Is(err, files.ErrExists) {
		return terminal.WithHint(fmt.Errorf("nothing was saved: %w", err), "name another folder, or move that file")
	}
	if err != nil {
		return fmt.Errorf("save the files of %s: %w", plain.Line(which), err)
	}
	return nil
}
