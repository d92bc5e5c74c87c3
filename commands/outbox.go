package commands

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

func outboxCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "outbox",
		Usage: "list and manage unsent and undelivered messages",
		Subcommands: []*cli.Command{
			outboxListCommand(p),
			outboxShowCommand(p),
			outboxRetryCommand(p),
			outboxDropCommand(p),
		},
	}
}

// withOutboxHint adds a hint to an error about a row.
func withOutboxHint(err error) error {
	switch {
	case errors.Is(err, cycle.ErrNoEffect):
		return terminal.WithHint(err, "see "+name+" outbox list; sent messages are in "+name+" history")
	case errors.Is(err, cycle.ErrBeingSent):
		return terminal.WithHint(err, "try again in a moment: a poll is sending it, and "+name+" outbox list shows the result")
	}
	return err
}

func outboxListCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list unsent and undelivered messages",
		Description: `Lists, in this order: unsent messages, with the last error and the next try;
failed ones, which the server refused for good or which waited five days; and
returned mail, which the server first accepted. Each row has a number, which
every outbox command accepts, the time, the recipient, the kind, and the status.

Examples:
  agentstateloop outbox list
  agentstateloop outbox list --json`,
		Action: p.agentAction(0, 0, listOutbox),
	}
}

func listOutbox(c *call, a *cycle.Agent) error {
	rows, err := a.Outbox()
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].State = present.OutboxStatus(rows[i], c.now())
	}
	if c.json {
		return c.out.JSON(rows)
	}
	var cells [][]string
	for _, r := range rows {
		at := "-"
		if when := cmp.Or(r.Created, r.Ended); when != nil {
			at = terminal.Clock(*when, c.now())
		}
		cells = append(cells, []string{present.OutboxNumber(r), at, plain.Line(r.To), present.OutboxSubject(r), r.State})
	}
	return c.out.Grid([]terminal.Column{{}, {}, {Least: 12}, {Least: 16}, {}}, cells)
}

func outboxShowCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show one message with its text",
		ArgsUsage: "NUMBER|ID",
		Description: `Shows the recipient, the server's reply, where the message is stored, its files,
and its text.

Example:
  agentstateloop outbox show 5`,
		Action: p.agentAction(1, 1, showEffect),
	}
}

// effectOutput is the JSON output of outbox show.
type effectOutput struct {
	cycle.OutboxRow
	Text string `json:"text"`
}

func showEffect(c *call, a *cycle.Agent) error {
	r, err := a.OutboxRow(c.arg(0))
	if err != nil {
		return withOutboxHint(err)
	}
	r.State = present.OutboxStatus(r, c.now())
	v := effectOutput{OutboxRow: r}
	if v.Text, err = effectText(r); err != nil {
		return err
	}
	if c.json {
		return c.out.JSON(v)
	}
	now := c.now()
	c.out.Printf("number:  %s\nid:      %s\nto:      %s (%s)\nstatus:  %s\n", present.OutboxNumber(r), plain.Line(r.ID), plain.Line(r.To), r.Channel, r.State)
	if r.Subject != "" {
		c.out.Printf("subject: %s\n", plain.Line(r.Subject))
	}
	if r.TurnID != "" {
		c.out.Printf("turn:    %s\n", plain.Line(r.TurnID))
	}
	if r.Created != nil {
		c.out.Printf("made:    %s\n", terminal.Clock(*r.Created, now))
	}
	printFiles(&c.out, "with:    ", r.Files)
	if r.File == "" {
		return nil
	}
	c.out.Printf("file:    %s\n\n%s\n", plain.Line(r.File), strings.TrimSuffix(terminal.Printable(v.Text), "\n"))
	return nil
}

// effectText returns the text of an effect.
func effectText(r cycle.OutboxRow) (string, error) {
	if r.File == "" {
		return "", nil
	}
	raw, err := osfile.ReadFile(r.File, store.MaxPayload)
	if errors.Is(err, fs.ErrNotExist) {
		return "", terminal.WithHint(fmt.Errorf("the file of %s is missing: %w", r.ID, err),
			"it may have been sent in the meantime; see "+name+" outbox list")
	}
	if err != nil {
		return "", err
	}
	if r.Channel == state.ByMail {
		return message.ReadContent(bytes.NewReader(raw), message.Sent{}).Full, nil
	}
	if r.Channel == state.ByHook {
		return string(raw), nil
	}
	var m mesh.Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return "", fmt.Errorf("read %s: %w", r.File, err)
	}
	return m.Text, nil
}

func outboxRetryCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     "send one message now, unchanged",
		ArgsUsage: "NUMBER|ID",
		Description: `For an unsent or a failed message. A failed one is sent again with the same
bytes, so the recipient can recognize a copy. Exits 3 if it could not be sent.

Example:
  agentstateloop outbox retry 5`,
		Action: p.agentAction(1, 1, retryEffect),
	}
}

// retryOutput is the JSON output of outbox retry.
type retryOutput struct {
	ID     string `json:"id"`
	Sent   bool   `json:"sent"`
	Status string `json:"status"` // "sent", or the status from outbox list
	Reason string `json:"reason"`
}

func retryEffect(c *call, a *cycle.Agent) error {
	id := c.arg(0)
	r, sent, err := a.RetryEffect(c.ctx, id)
	if err != nil {
		return withOutboxHint(err)
	}
	id = r.ID
	v := retryOutput{ID: id, Sent: sent, Status: r.Status, Reason: r.Reason}
	if sent {
		v.Status, v.Reason = "sent", ""
	}
	text := ""
	switch {
	case sent:
		text = plain.Line(id) + " was sent\n"
	case r.Reason == "" || r.Status == cycle.RowSending || r.Status == cycle.RowHeld:
		text = plain.Line(id) + " " + present.OutboxStatus(r, c.now()) + "\n"
	}
	if err := c.print(v, "%s", text); err != nil {
		return err
	}
	if sent || r.Attempts == 0 && r.Status != cycle.RowUndelivered && r.Status != cycle.RowLost {
		return nil // another process has it, or it waits for GO
	}
	failed := &sourceError{failed: []string{fmt.Sprintf("%s: %s", plain.Line(id), present.OutboxStatus(r, c.now()))}}
	if r.Status == cycle.RowUndelivered {
		return terminal.WithHint(failed, "it stays in the outbox; "+name+" outbox drop "+plain.Line(id)+" removes it")
	}
	return failed
}

// outboxDropOptions are the flags of outbox drop.
type outboxDropOptions struct{ reason string }

func outboxDropCommand(p *program) *cli.Command {
	var o outboxDropOptions
	return &cli.Command{
		Name:      "drop",
		Usage:     "delete one message without sending it",
		ArgsUsage: "NUMBER|ID",
		Description: `A message that is being sent cannot be dropped.

Example:
  agentstateloop outbox drop 5 --reason "answered by phone"`,
		Flags:  []cli.Flag{reasonFlag(&o.reason)},
		Action: p.agentAction(1, 1, o.run),
	}
}

func (o *outboxDropOptions) run(c *call, a *cycle.Agent) error {
	r, err := a.OutboxRow(c.arg(0))
	if err != nil {
		return withOutboxHint(err)
	}
	if err := a.DropEffect(c.ctx, r.ID, o.reason); err != nil {
		return withOutboxHint(err)
	}
	return c.print(outboxDropOutput{ID: r.ID, Dropped: true}, "")
}

// outboxDropOutput is the JSON output of outbox drop.
type outboxDropOutput struct {
	ID      string `json:"id"`
	Dropped bool   `json:"dropped"`
}
