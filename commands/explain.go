package commands

import (
	"fmt"
	"math"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/internal/plain"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
)

// explainOptions are the flags of explain.
type explainOptions struct{ table, full, offline bool }

func explainCommand(p *program) *cli.Command {
	var o explainOptions
	return &cli.Command{
		Name:      "explain",
		Usage:     "show what a poll would do with a mail, and why",
		ArgsUsage: "FILE...",
		Description: `For each mail: would it start a turn, be set aside or be ignored; which gate and
which header field decided; which signature covers it; which text and files the
agent would get; and what to do next. It decides by the code of the poll, on the
current state, and changes nothing.

FILE is a mail as your mail program saves it (.eml, "original"), an mbox, a
Maildir, a folder of .eml files, a pipe, or - for standard input. Up to three
mails are explained in sentences, more in a table, or with --full in sentences
too.

Signatures are verified as [trust] demands: with verify = "dkim" that looks up
keys in the DNS. With --offline such a mail is "not checked". No other server is
asked.

Examples:
  agentstateloop explain mail.eml
  agentstateloop explain --table ~/Maildir
  agentstateloop explain --json mbox | jq 'select(.gate == "trust")'`,
		Flags: []cli.Flag{
			switchFlag(&o.table, "table", "one line for each mail"),
			switchFlag(&o.full, "full", "sentences for each mail"),
			switchFlag(&o.offline, "offline", "do not ask the DNS for keys"),
		},
		Action: p.agentAction(1, math.MaxInt, o.run),
	}
}

const (
	maxSentences = 3   // mails that are explained in sentences without --full
	tableRows    = 500 // rows of the table that are aligned together
)

// explainedMail is the JSON output for a mail, one a line.
type explainedMail struct {
	File  string  `json:"file"`
	Error *string `json:"error"` // why the file cannot be read; the other fields are then empty
	cycle.Explanation
}

// explainPrinter prints explanations: in sentences, in a table or as JSON.
type explainPrinter struct {
	*call
	o       *explainOptions
	few     []explainedMail // not printed yet, while there are few
	rows    [][]string      // of the table, not printed yet
	printed bool
	mails   int
	failed  int
	count   map[cycle.Outcome]int
}

func (o *explainOptions) run(c *call, a *cycle.Agent) error {
	if o.table && o.full {
		return terminal.Usagef("use one of them", "--table and --full exclude each other")
	}
	x, err := a.Explainer(o.offline)
	if err != nil {
		return err
	}
	p := &explainPrinter{call: c, o: o, count: map[cycle.Outcome]int{}}
	r := mail.StoredReader{
		Stdin: c.stdin, MaxSize: a.Mail.Filter.MaxSize, Now: c.now,
		Take: func(m mail.Stored) error { return p.explain(x, m) }, Skip: p.skip,
	}
	for _, name := range c.args {
		if err := r.Read(name); err != nil {
			return err
		}
	}
	return p.end()
}

// explain explains one mail.
func (p *explainPrinter) explain(x *cycle.Explainer, m mail.Stored) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	e, err := x.Explain(p.ctx, cycle.FoundMail{Raw: m.Raw, Size: m.Size, At: m.At})
	if err != nil {
		return p.skip(m.Name, err)
	}
	p.mails++
	p.count[e.Outcome]++
	return p.add(explainedMail{File: m.Name, Explanation: e})
}

// skip reports a file that cannot be read.
func (p *explainPrinter) skip(name string, why error) error {
	p.failed++
	if !p.json {
		p.out.Warn("%s: %s", plain.Line(name), plain.Line(why.Error()))
		return nil
	}
	return p.out.JSONLine(explainedMail{File: name, Error: orNull(why.Error()), Explanation: cycle.Explanation{
		Files: []files.ReceivedFile{}, Problems: []string{}, Evidence: trust.NoEvidence(),
	}})
}

// add prints an explanation, or holds it until the form of the output is known.
func (p *explainPrinter) add(m explainedMail) error {
	switch {
	case p.json:
		return p.out.JSONLine(m)
	case p.o.full:
		p.sentences(m)
		return nil
	case !p.o.table && p.mails <= maxSentences:
		p.few = append(p.few, m)
		return nil
	}
	for _, m := range append(p.few, m) {
		p.rows = append(p.rows, present.ExplanationRow(m.Explanation, p.now()))
	}
	p.few = nil
	if len(p.rows) < tableRows {
		return nil
	}
	return p.printRows()
}

// end prints the rest, and returns an error if a file could not be read.
func (p *explainPrinter) end() error {
	for _, m := range p.few {
		p.sentences(m)
	}
	if err := p.printRows(); err != nil {
		return err
	}
	if !p.json && p.mails > maxSentences {
		p.out.Printf("%s\n", present.ExplanationCounts(p.count))
	}
	if p.failed > 0 {
		return fmt.Errorf("%s could not be read", terminal.Count(p.failed, "file"))
	}
	if !p.json && p.mails == 0 {
		p.out.Printf("no mails found\n")
	}
	return nil
}

// sentences prints an explanation in sentences, below the name of its file unless that is the only one.
func (p *explainPrinter) sentences(m explainedMail) {
	if p.printed {
		p.out.Printf("\n")
	}
	p.printed = true
	if len(p.args) > 1 || m.File != p.args[0] {
		p.out.Printf("file:     %s\n", plain.Line(m.File))
	}
	p.out.Printf("%s", present.Explanation(m.Explanation, p.now()))
}

// printRows prints the pending rows of the table.
func (p *explainPrinter) printRows() error {
	if len(p.rows) == 0 {
		return nil
	}
	defer func() { p.rows = nil }()
	return p.out.Grid([]terminal.Column{{}, {Least: 12}, {Least: 12}, {}}, p.rows)
}
