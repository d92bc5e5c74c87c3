package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

type outboxShowCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func outboxShowCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show one of them, with its text",
		ArgsUsage: "NUMBER|ID",
		Description: `Shows to whom it goes, what the server said, where it is kept, which files go
along, and its text.

Example:
  agentstateloop outbox show 5`,
		Action: outboxShowCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

// effectOutput is the JSON output of outbox show.
type effectOutput struct {
	cycle.OutboxRow
	Text string `json:"text"`
}

func (k outboxShowCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	r, err := a.OutboxRow(c.Args().First())
	if err != nil {
		return withOutboxHint(err)
	}
	r.State = outboxStatus(r, k.now())
	v := effectOutput{OutboxRow: r}
	if v.Text, err = effectText(r); err != nil {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(v)
	}
	now := k.now()
	k.out.Printf("number:  %s\nid:      %s\nto:      %s (%s)\nstatus:  %s\n", outboxNumber(r), plain.Line(r.ID), plain.Line(r.To), r.Channel, r.State)
	if r.Subject != "" {
		k.out.Printf("subject: %s\n", plain.Line(r.Subject))
	}
	if r.TurnID != "" {
		k.out.Printf("turn:    %s\n", plain.Line(r.TurnID))
	}
	if r.Created != nil {
		k.out.Printf("made:    %s\n", terminal.Clock(*r.Created, now))
	}
	printFiles(k.out, "with:    ", r.Files)
	if r.File == "" {
		return nil
	}
	k.out.Printf("file:    %s\n\n%s\n", plain.Line(r.File), strings.TrimSuffix(terminal.Printable(v.Text), "\n"))
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
			"it may have been sent meanwhile, see "+name+" outbox list")
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
