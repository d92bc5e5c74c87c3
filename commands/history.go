package commands

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// followEvery is how often history --follow looks for new lines.
const followEvery = 300 * time.Millisecond

// historyOptions are the flags of history.
type historyOptions struct {
	n                         int
	all, follow, cost         bool
	search, trace, verify, by string
}

func historyCommand(p *program) *cli.Command {
	var o historyOptions
	return &cli.Command{
		Name:  "history",
		Usage: "show the history: messages, phases, turns, mails",
		Description: `Shows the latest entries, oldest first: messages, answers and their cost, and
other events that matter to you. With --all, prints each line of the history
instead, including internal ones; with --json, all lines as they are stored, one
JSON object per line.

With --cost, prints the cost of all turns in the history per day, or per turn,
month or sender. Days begin at midnight of your time zone, as in the daily
budget.

With --search, searches the messages and answers since the last reset: prints
those that share the most words with WORDS, best match first, with their
answers; 5 by default, or as many as -n says, at most 20. Inside a turn, the
agent can only search the conversation that the turn belongs to.

With --trace, prints the lines of one chain: a message and the turns, questions,
reports and mails that it caused. Other agents have their part of the chain in
their own histories, under the same ID. A prefix of the ID is enough.

With --verify, checks the history against a mail that the agent sent. Each mail
names the newest history line at that time in the field
X-AgentStateLoop-History. MAIL is a file, - for standard input, or the value of
that field. Exits 0 if no line up to that one was changed, and 1 otherwise.

Examples:
  agentstateloop history --follow
  agentstateloop history --all -n 50
  agentstateloop history --search "red door key"
  agentstateloop history --cost --by sender
  agentstateloop history --trace trace.4c1f
  agentstateloop history --verify answer.eml`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "n", Usage: "`LINES`: number of lines; 0 for all", Value: 20, Destination: &o.n},
			switchFlag(&o.all, "all", "print every line, including internal ones"),
			switchFlag(&o.follow, "follow", "keep running and print new lines"),
			textFlag(&o.search, "search", "search messages and answers for `WORDS`"),
			textFlag(&o.trace, "trace", "show the chain with this `ID`"),
			switchFlag(&o.cost, "cost", "show the cost of turns"),
			textFlag(&o.verify, "verify", "check the history against a `MAIL` of the agent"),
			&cli.StringFlag{Name: "by", Usage: "`UNIT`: with --cost: turn, day, month or sender", DefaultText: byDay, Destination: &o.by},
		},
		// A search shows a turn only what was said with whom it answers.
		Before: p.checkCaller(func(c *call) bool { return c.given(&o.search) != "" }),
		Action: p.action(0, 0, o.run),
	}
}

func (o *historyOptions) run(c *call) error {
	if o.n < 0 {
		return terminal.Usagef("see "+name+" history --help", "-n must be a number of lines, or 0 for all")
	}
	switch {
	case c.given(&o.trace) != "":
		return o.printChain(c)
	case c.given(&o.verify) != "":
		return o.compare(c)
	case c.given(&o.search) != "":
		return o.printResults(c)
	case o.cost:
		return o.printCost(c)
	case c.given(&o.by) != "":
		return terminal.Usagef("see "+name+" history --help", "--by works only with --cost")
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	tail := historyTail{store: a.Store, most: o.n, unread: c.unread, shows: o.printerFor(c, a)}
	if err := tail.print(); err != nil || !o.follow {
		return err
	}
	return tail.follow(c.ctx)
}

// printerFor returns a function that returns the printer of a history line, in the format of the
// flags, or nil for a hidden line.
func (o *historyOptions) printerFor(c *call, a *cycle.Agent) func(state.Line) linePrinter {
	if c.json {
		return func(l state.Line) linePrinter { return func() error { return c.out.JSONLine(l) } }
	}
	format := present.NewHistoryReader(c.now(), &c.out, a.FirstWords).Line
	if o.all {
		format = func(l state.Line) func() string {
			return func() string { return c.out.Fit(present.Line(l, c.now()), allIndent) + "\n" }
		}
	}
	return func(l state.Line) linePrinter {
		text := format(l)
		if text == nil {
			return nil
		}
		return func() error {
			_, err := io.WriteString(c.out.Stdout, text())
			return err
		}
	}
}

// allIndent is the indent of a wrapped line of --all.
const allIndent = 10

// linePrinter prints a history line.
type linePrinter func() error

// historyTail walks the history to its end, and later continues from there.
type historyTail struct {
	store *store.Store
	most  int        // maximum number of lines to print from the first walk; 0 means all
	last  state.Line // the last walked line
	seen  uint64     // serial of the state at the last walk

	shows  func(state.Line) linePrinter
	unread func() bool // reports whether the reader of the output has gone
}

// walk calls take with each line after the last walked one.
func (t *historyTail) walk(take func(state.Line)) error {
	// Lines of a commit after this one belong to the next walk.
	s, err := t.store.Read()
	if err != nil {
		return err
	}
	for l, err := range t.store.History() {
		if err != nil {
			return fmt.Errorf("read history: %w", err)
		}
		if l.After(t.last.Serial, t.last.N) {
			take(l)
			t.last = l
		}
	}
	t.seen = s.Serial
	return nil
}

// print prints the lines after the last walked one.
func (t *historyTail) print() error {
	var lines []linePrinter
	err := t.walk(func(l state.Line) {
		lines = newest(lines, t.shows(l), t.most)
	})
	if err != nil {
		return err
	}
	if err := printAll(lines, t.most); err != nil {
		return err
	}
	t.most = 0
	return nil
}

// newest appends a printer to lines. It drops the oldest ones beyond most; 0 means all.
func newest(lines []linePrinter, line linePrinter, most int) []linePrinter {
	if line == nil {
		return lines
	}
	lines = append(lines, line)
	if most > 0 && len(lines) >= 2*most {
		lines = append(lines[:0], lines[len(lines)-most:]...)
	}
	return lines
}

// printAll prints the newest lines, at most most of them; 0 means all.
func printAll(lines []linePrinter, most int) error {
	if most > 0 && len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	for _, print := range lines {
		if err := print(); err != nil {
			return err
		}
	}
	return nil
}

// follow prints new lines until ctx ends or the reader of the output has gone. It then returns
// nil. It walks the history only if the state has changed.
func (t *historyTail) follow(ctx context.Context) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if t.unread() {
			return nil
		}
		s, err := t.store.Read()
		if err != nil {
			return err
		}
		if s.Serial == t.seen {
			continue
		}
		if err := t.print(); err != nil {
			return err
		}
	}
}
