package commands

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/backup"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/archive"
)

// moveOptions are the flags of move.
type moveOptions struct {
	sealOptions
	to          string
	now, cancel bool
}

func moveCommand(p *program) *cli.Command {
	var o moveOptions
	return &cli.Command{
		Name:      "move",
		Usage:     "end the agent here, and write it to one file",
		ArgsUsage: "FILE",
		Description: `For another machine: waits for the running turn and those that follow it at
once, removes the crontab lines or the timer, marks the agent as moved, and
writes an archive as backup does. From then on the agent does nothing here: each
command refuses, and says where it went. On the other machine, restore goes on
where it stopped.

If move is interrupted, run it again. --cancel brings the agent back here, as
after a restore, because the other machine may have worked; then do not restore
the archive anywhere.

Examples:
  agentstateloop move goulard.tar.gz --to newhost --secrets
  agentstateloop move --cancel`,
		Flags: append([]cli.Flag{
			textFlag(&o.to, "to", "`HOST`: the other machine, for the messages"),
			switchFlag(&o.now, "now", "stop the running turn; its output so far is delivered"),
			switchFlag(&o.cancel, "cancel", "take the move back"),
		}, o.flags()...),
		Action: p.agentAction(0, 1, o.run),
	}
}

func (o *moveOptions) run(c *call, a *cycle.Agent) error {
	if o.cancel {
		return o.takeBack(c, a)
	}
	if a.Seat != nil {
		return terminal.Usagef("on the other host: copy agent.toml and its secrets there, `"+name+" init`, then `"+name+" fleet take`. Last, `"+name+" uninstall` here",
			"@%s lives on several hosts: its state is in the servers, not in one file", a.Handle)
	}
	if c.insideTurn() {
		return notAllowed("run it outside the agent's turn", "%s would wait for its own turn", c.helpName())
	}
	if c.arg(0) == "" || c.arg(0) == "-" {
		return terminal.Usagef("see "+c.helpName()+" --help", "%s needs FILE", c.helpName())
	}
	file, err := filepath.Abs(c.arg(0))
	if err != nil {
		return err
	}
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	m, written := archive.Manifest{}, false
	if s.Moved != nil && s.Moved.Archive == file {
		// An earlier move was perhaps killed after it wrote the archive.
		if m, err = archive.ReadManifest(file); err == nil {
			written = m.Final && m.Handle == a.Handle && m.Serial == s.Serial
		}
	}
	if !written {
		if err := backup.CheckFree(file); err != nil {
			return err
		}
	}
	recipients, err := o.chosen(c)
	if err != nil {
		return err
	}
	options := cycle.MoveOptions{
		To: o.to, Archive: file, Now: o.now,
		Waiting: func(reason string) { c.out.Note("note", "waiting for %s", reason) },
	}
	if s.Moved != nil {
		options.To = cmp.Or(o.to, s.Moved.To)
		if written {
			options.To = s.Moved.To // another commit would make the archive old
		}
	}
	options.To = cmp.Or(options.To, "another machine")
	err = a.Move(c.ctx, options, func() error {
		if written {
			backup.RemoveDrafts(filepath.Dir(file)) // the draft is a second name of the archive
			return nil
		}
		b := backup.Backup{Loader: c.loader, Agent: a, Recipients: recipients, Final: true}
		m, err = b.WriteFile(c.ctx, file)
		return backupError(err)
	})
	if err != nil {
		return err
	}
	if a.Schedule.Mode != cycle.ModeCrontab && !a.Schedule.HasTimer() {
		c.out.Warn("schedule.mode is %q: stop what starts its polls", a.Schedule.Mode)
	}
	if err := c.printBackup(file, m); err != nil || c.json {
		return err
	}
	host, _ := os.Hostname()
	c.out.Printf("\n@%s does nothing on %s any more. Next: copy the file to %s, and there\n`%s restore %s`.\n", a.Handle, cmp.Or(host, "this machine"), options.To, name, filepath.Base(file))
	return nil
}

// moveCancelOutput is the JSON output of move --cancel.
type moveCancelOutput struct {
	Agent string `json:"agent"`
	Back  bool   `json:"back"`
}

// takeBack brings the agent back to this machine. Nothing here shows whether the other machine has
// worked since, so the state counts as restored from the archive of the move.
func (o *moveOptions) takeBack(c *call, a *cycle.Agent) error {
	if c.arg(0) != "" {
		return terminal.Usagef("", "move --cancel takes no FILE")
	}
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if s.Moved == nil {
		return c.print(moveCancelOutput{a.Handle, false}, "@%s was not moved\n", a.Handle)
	}
	if err := a.MarkRestored(c.ctx, s.Moved.At, s.Moved.Archive); err != nil {
		return err
	}
	install(c, a)
	text := fmt.Sprintf("@%s works here again, as after a restore: messages that the other machine may have answered wait for you.", a.Handle)
	if s.Moved.Archive != "" {
		text += fmt.Sprintf(" Remove %s and its copies: two agents must not share a mailbox.", s.Moved.Archive)
	}
	return c.print(moveCancelOutput{a.Handle, true}, "%s\n", text)
}
