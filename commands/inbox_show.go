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
	"agentstateloop/cycle/quarantine"
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
		Description: `By its key it also shows a message that is done, as long as it is kept, a
message in quarantine, with the reason, and what is known of a mail that cannot
be fetched. A message that is done is shown with what its turn handed back,
and one that is not with where it stands.

Example:
  agentstateloop inbox show 12`,
		Action: inboxShowCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

// messageOutput is the JSON output of inbox show.
type messageOutput struct {
	state.Message
	Subject string        `json:"subject"`
	Text    string        `json:"text"`
	Receipt cycle.Receipt `json:"receipt"`

	// Deliverable is what the turn of the message has handed back, or null.
	Deliverable *cycle.Deliverable   `json:"deliverable"`
	Files       []cycle.ReceivedFile `json:"files"`
}

func (k inboxShowCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	q, err := a.Quarantined(c.Args().First())
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
	if f, failing := s.FailingMail(c.Args().First()); failing {
		return k.printFailing(c, f)
	}
	m, err := findMessage(a, c.Args().First())
	if err != nil {
		return err
	}
	v := messageOutput{Message: m}
	if v.Subject, v.Text, err = readPayload(a, m.Key, m.Source, m.Payload, m.Sum); err != nil {
		return err
	}
	if v.Receipt, err = a.Receipt(m); err != nil {
		return err
	}
	if v.Deliverable, err = a.HandedBack(m.Key); err != nil {
		return err
	}
	v.Files, _ = a.FilesOf(m) // what is wrong with the payload stands in the text
	if c.Bool("json") {
		return k.out.JSON(v)
	}
	k.out.Printf("key:     %s\nfrom:    %s (%s)\nat:      %s\nstatus:  %s\n", plain.Line(m.Key), plain.Line(m.From), m.Source, terminal.Clock(m.At, k.now()), m.Status)
	if m.Status == state.Deferred {
		why := ""
		if !k.now().Before(m.NextRetryAt) {
			why = held(s.SelfHeld(m, a.Policy, k.now()))
		}
		k.out.Printf("until:   %s%s%s\n", terminal.Clock(m.NextRetryAt, k.now()), because(plain.Line(m.Reason)), why)
	}
	if v.Subject != "" {
		k.out.Printf("subject: %s\n", plain.Line(v.Subject))
	}
	if m.Trace != "" {
		k.out.Printf("chain:   %s\n", plain.Line(m.Trace))
	}
	printFiles(k.out, "file:    ", v.Files)
	printReceipt(k.out, v.Receipt, k.now())
	k.printText(v.Text)
	if d := v.Deliverable; d != nil {
		k.out.Printf("\nanswered (%s):\n", d.Outcome)
		k.printText(d.Whole())
	} else {
		k.printStanding(m)
	}
	return nil
}

// printFiles prints the files that came with a message, each on a line that begins with
// label.
func printFiles(out *terminal.Output, label string, files []cycle.ReceivedFile) {
	for _, f := range files {
		if f.Missing != "" {
			out.Printf("%s%s is missing: %s\n", label, plain.Line(f.Name), plain.Line(f.Missing))
			continue
		}
		out.Printf("%s%s (%s, %d bytes): %s\n", label, plain.Line(f.Name), plain.Line(f.Type), f.Size, plain.Line(f.Path))
	}
}

// printStanding says where a message without an answer stands.
func (k inboxShowCmd) printStanding(m state.Message) {
	switch m.Status {
	case state.Queued, state.Deferred:
		k.out.Printf("\nno answer yet: it waits for its turn\n")
	case state.Pending, state.Processing:
		k.out.Printf("\nno answer yet: its turn runs, or waits for what it has asked or started\n")
	}
}

// printFailing shows a mail that cannot be fetched.
func (k inboxShowCmd) printFailing(c *cli.Context, f state.FailingMail) error {
	if c.Bool("json") {
		return k.out.JSON(failingJSON(f))
	}
	k.out.Printf("key:     %s\nsince:   %s\nstatus:  %s\n", plain.Line(f.Key), terminal.Clock(f.Since, k.now()), failingStatus(f, k.now()))
	k.out.Printf("\nThe mail server lists it and does not hand it out. It is tried for as long as it\nis in the mailbox; %s inbox drop %s ends that.\n", name, plain.Line(f.Key))
	return nil
}

// quarantineOutput is the JSON output of inbox show for an item in quarantine.
type quarantineOutput struct {
	quarantine.Item
	Status string               `json:"status"`
	Text   string               `json:"text"`
	Files  []cycle.ReceivedFile `json:"files"`
}

// printQuarantined shows an item in quarantine.
func (k inboxShowCmd) printQuarantined(c *cli.Context, a *cycle.Agent, q quarantine.Item) error {
	v := quarantineOutput{Item: q, Status: "quarantined", Files: a.FilesInQuarantine(q)}
	var err error
	if _, v.Text, err = readPayload(a, q.Key, q.Source, q.Payload, q.Sum); err != nil {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(v)
	}
	k.out.Printf("key:     %s\nfrom:    %s (%s, not proved)\nat:      %s\nstatus:  quarantined by gate %s: %s\n",
		plain.Line(q.Key), plain.Line(q.From), q.Source, terminal.Clock(q.At, k.now()), q.Gate, plain.Line(q.Reason))
	if q.Subject != "" {
		k.out.Printf("subject: %s\n", plain.Line(q.Subject))
	}
	printFiles(k.out, "file:    ", v.Files)
	k.printText(v.Text)
	return nil
}

func (k inboxShowCmd) printText(text string) {
	k.out.Printf("\n%s\n", strings.TrimSuffix(terminal.Printable(text), "\n"))
}

// readPayload returns the subject and the text of the message with that key. Of a
// damaged one the text is a note that says so.
func readPayload(a *cycle.Agent, key string, source state.Source, file, sum string) (subject, text string, err error) {
	raw, err := a.Store.ReadSummed(file, sum)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("the text of %s is gone: it was pruned (keep in [agent]), or removed", key)
	}
	if errors.Is(err, store.ErrDamaged) {
		return "", "(not shown: " + err.Error() + ")", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("read message: %w", err)
	}
	if source != state.Mail {
		return "", string(raw), nil
	}
	return message.ParseHeader(raw).Subject, message.ReadContent(bytes.NewReader(raw)).Full, nil
}
