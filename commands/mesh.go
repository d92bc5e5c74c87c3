package commands

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

func meshCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "mesh",
		Usage: "run or use the mesh, the message service between agents",
		Subcommands: []*cli.Command{
			meshServeCommand(p),
			meshSendCommand(p),
			meshInboxCommand(p),
			meshHaltCommand(p),
			meshResumeCommand(p),
		},
	}
}

// carrier returns the configured agent's connection to the mesh.
func (c *call) carrier() (cycle.Carrier, error) {
	a, err := c.loadOnMesh()
	if err != nil {
		return nil, err
	}
	return a.Mesh.Carrier, nil
}

// loadOnMesh loads the agent, which must have a mesh.
func (c *call) loadOnMesh() (*cycle.Agent, error) {
	a, err := c.load()
	if err == nil && a.Mesh == nil {
		err = &config.Error{Path: a.Config, Key: "mesh.url", Text: "is missing: the URL of the mesh", Advice: meshHint}
	}
	return a, err
}

func meshHaltCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "halt",
		Usage: "halt every agent on the mesh",
		Description: `Until mesh resume, no agent on the mesh runs a turn or sends mail; messages are
still collected. Listening agents learn of the HALT immediately, the others at
their next poll. It survives a restart of the mesh.

Example:
  agentstateloop mesh halt`,
		Action: p.action(0, 0, func(c *call) error {
			return setMeshHalt(c, cycle.Carrier.Halt, true, "every agent on the mesh at %s is HALTED, until `"+name+" mesh resume`\n")
		}),
	}
}

// setMeshHalt sets or lifts the mesh's HALT, and checks that the mesh reports the change. text is a
// format for the address of the mesh.
func setMeshHalt(c *call, change func(cycle.Carrier, context.Context) error, halted bool, text string) error {
	carrier, err := c.carrier()
	if err != nil {
		return err
	}
	if err := change(carrier, c.ctx); err != nil {
		return err
	}
	if err := checkMeshHalt(c.ctx, carrier, halted); err != nil {
		return err
	}
	return c.print(struct {
		Halted bool `json:"halted"`
	}{halted}, text, carrier.Address())
}

// checkMeshHalt returns an error unless the mesh reports the requested state of HALT in the same way as
// to its agents. Another service may answer 200 to anything.
func checkMeshHalt(ctx context.Context, carrier cycle.Carrier, halted bool) error {
	box, err := carrier.Mailbox(ctx, 0)
	switch {
	case err != nil:
		return fmt.Errorf("cannot verify the change on the mesh: %w", err)
	case box.Halted && !halted:
		return fmt.Errorf("%s accepted the request but still reports HALT: check url in [mesh]", carrier.Address())
	case !box.Halted && halted:
		return fmt.Errorf("%s accepted the request but reports no HALT: check url in [mesh]", carrier.Address())
	}
	return nil
}

func meshResumeCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "resume",
		Usage: "lift the mesh's HALT",
		Description: `To lift the HALT of a single agent, set by halt or by mail, use resume.

Example:
  agentstateloop mesh resume`,
		Action: p.action(0, 0, func(c *call) error {
			return setMeshHalt(c, cycle.Carrier.Go, false, "the agents on the mesh at %s resume\n")
		}),
	}
}

// meshSendOptions are the flags of mesh send.
type meshSendOptions struct {
	fields, files         []string
	id, correlation, kind string
}

func meshSendCommand(p *program) *cli.Command {
	var o meshSendOptions
	return &cli.Command{
		Name:      "send",
		Usage:     "send a message to another agent's mesh mailbox",
		ArgsUsage: "HANDLE TEXT",
		Description: `Sends as your agent, with its token, and prints the id of the message. If TEXT
is -, it is read from standard input. A message with the same --id is sent only
once, so a script may retry. --field and --file are those of ask.

Examples:
  agentstateloop mesh send dorlange3120 "rotate the Gmail password, please"
  agentstateloop mesh send dorlange3120 "run the tests" --field passed:integer`,
		Flags: []cli.Flag{
			repeatedFlag(&o.fields, "field", "ask for this result `FIELD`; may be repeated"),
			repeatedFlag(&o.files, "file", "send this `FILE` along; may be repeated"),
			&cli.StringFlag{Name: "kind", Value: mesh.KindMessage, Usage: "`KIND`: message, ask, report, relay or notice", Destination: &o.kind},
			textFlag(&o.id, "id", "`ID`: id of the message, so that a retry is safe"),
			textFlag(&o.correlation, "correlation-id", "`ID`: id of the message that this one answers"),
		},
		Action: p.action(0, math.MaxInt, o.run),
	}
}

func (o *meshSendOptions) run(c *call) error {
	to, text, err := c.handleAndText()
	if err != nil {
		return err
	}
	fields, err := requestedFields(o.fields)
	if err != nil {
		return err
	}
	carrier, err := c.carrier()
	if err != nil {
		return err
	}
	opened, closeAll, err := files.Open(o.files)
	if err != nil {
		return err
	}
	defer closeAll()
	files, err := files.Upload(c.ctx, carrier, to, opened)
	if err != nil {
		return err
	}
	id, err := carrier.Send(c.ctx, mesh.Message{
		ID: o.id, To: to, Text: text, Kind: o.kind, Correlation: o.correlation, ResultFields: fields, Files: files,
	})
	if err != nil {
		return err
	}
	return c.print(struct {
		ID string `json:"id"`
	}{id}, "%s\n", terminal.Printable(id))
}

// meshInboxOptions are the flags of mesh inbox.
type meshInboxOptions struct {
	ack  []string
	wait time.Duration
}

func meshInboxCommand(p *program) *cli.Command {
	var o meshInboxOptions
	return &cli.Command{
		Name:  "inbox",
		Usage: "show the messages in your agent's mesh mailbox",
		Description: `Removes no message: the next poll takes them. With --ack it removes the given
messages, and shows none.

Example:
  agentstateloop mesh inbox --wait 50s --json`,
		Flags: []cli.Flag{
			durationFlag(&o.wait, "wait", "wait up to `DURATION`, at most 1m, for a message", 0),
			repeatedFlag(&o.ack, "ack", "remove the message `ID`; may be repeated"),
		},
		Action: p.action(0, 0, o.run),
	}
}

// meshAckOutput is the JSON output of mesh inbox --ack.
type meshAckOutput struct {
	Acked []string `json:"acked"`
}

func (o *meshInboxOptions) run(c *call) error {
	a, err := c.loadOnMesh()
	if err != nil {
		return err
	}
	carrier := a.Mesh.Carrier
	if ids := o.ack; len(ids) > 0 {
		if err := a.Acts(); err != nil {
			return err // the host that acts has not taken them yet
		}
		for _, id := range ids {
			if err := carrier.Ack(c.ctx, id); err != nil {
				return err
			}
		}
		return c.print(meshAckOutput{Acked: ids}, "")
	}
	box, err := carrier.Mailbox(c.ctx, o.wait)
	if err != nil {
		return err
	}
	if c.json {
		return c.out.JSON(mailboxOf(box))
	}
	if box.Halted {
		c.out.Printf("HALTED by the mesh\n")
	}
	for _, msg := range box.Messages {
		proof := ""
		if !msg.Proven {
			proof = " (unproven)"
		}
		c.out.Printf("%s  %s  %s from @%s%s: %s\n", terminal.Clock(msg.SentAt, c.now()), plain.Line(msg.ID), plain.Line(msg.Kind), plain.Line(msg.From), proof, plain.Line(msg.Text))
		for _, f := range msg.Files {
			c.out.Printf("  file %s (%s, %d bytes)\n", plain.Line(f.Name), cmp.Or(plain.Line(f.Type), "of unknown type"), f.Size)
		}
	}
	return nil
}

// mailboxOutput is the JSON output of mesh inbox.
type mailboxOutput struct {
	Halted    bool                `json:"halted"`
	Messages  []meshMessageOutput `json:"messages"`
	Undecoded []undecodedOutput   `json:"undecoded"`
}

// meshMessageOutput is a message on the mesh. A value that its sender omitted is "", 0 or empty.
type meshMessageOutput struct {
	ID             string              `json:"id"`
	From           string              `json:"from"`
	Proven         bool                `json:"proven"`
	To             string              `json:"to"`
	Kind           string              `json:"kind"`
	Text           string              `json:"message"`
	SentAt         *time.Time          `json:"sent_at"`
	Correlation    string              `json:"correlation_id"`
	Trace          string              `json:"trace_id"`
	Hops           []string            `json:"hops"`
	ResultFields   []resultFieldOutput `json:"result_fields"`
	Files          []meshFileOutput    `json:"files"`
	Status         state.Outcome       `json:"status"`
	TurnID         string              `json:"turn_id"`
	Epoch          uint64              `json:"turn_epoch"`
	Fields         mesh.Fields         `json:"fields"`
	AfterExecution string              `json:"after_execution"`
}

// meshFileOutput is a file of a message.
type meshFileOutput struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// undecodedOutput is an item of a mailbox that is not a message.
type undecodedOutput struct {
	ID     string `json:"id"`
	From   string `json:"from"`
	Reason string `json:"reason"`
	Raw    []byte `json:"raw"`
}

// mailboxOf converts a mailbox of the mesh to its JSON output.
func mailboxOf(box mesh.Mailbox) mailboxOutput {
	v := mailboxOutput{Halted: box.Halted, Messages: []meshMessageOutput{}, Undecoded: []undecodedOutput{}}
	for _, m := range box.Messages {
		row := meshMessageOutput{
			ID: m.ID, From: m.From, Proven: m.Proven, To: m.To, Kind: m.Kind, Text: m.Text, SentAt: orNull(m.SentAt.UTC()),
			Correlation: m.Correlation, Trace: m.Trace, Hops: orEmpty(m.Hops), ResultFields: resultFieldsOf(m.ResultFields), Files: []meshFileOutput{},
			Status: m.Status, TurnID: m.TurnID, Epoch: m.Epoch, Fields: m.Fields, AfterExecution: m.AfterExecution,
		}
		for _, f := range m.Files {
			row.Files = append(row.Files, meshFileOutput{Name: f.Name, Type: f.Type, Size: f.Size, SHA256: f.SHA256})
		}
		v.Messages = append(v.Messages, row)
	}
	for _, u := range box.Undecoded {
		v.Undecoded = append(v.Undecoded, undecodedOutput{ID: u.ID, From: u.From, Reason: u.Reason, Raw: u.Raw})
	}
	return v
}
