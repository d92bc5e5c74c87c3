package commands

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// followEvery is how often history --follow looks for new lines.
const followEvery = 300 * time.Millisecond

type historyCmd struct {
	agents agents
	loader *config.Loader
	stdin  io.Reader
	out    *terminal.Output
	unread func() bool
}

func historyCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "history",
		Usage: "show what happened: messages, transitions, turns, mails",
		Description: `Prints the newest lines of the history, the oldest of them first; with --json
the lines as they are stored, one JSON object each.

With --cost, prints what all turns in the history have cost: by day, or by turn,
month or sender. A day is one of your time zone, as for the day's budget.

With --search, prints what was said to the agent and answered since the last
reset: the messages that share most words with WORDS, the best first, with their
answers; 5 of them, or as many as -n says, at most 20. Inside a turn the agent
finds only what was said with whom the turn answers.

With --trace, prints the lines of one chain: a message, and the turns,
questions, reports and mails that came of it. Other agents have their part of
the chain in their own histories, under the same ID. The beginning of an ID is
enough.

With --verify, compares the history with a mail that the agent sent. Each mail
names the newest line of its time, in the field X-AgentStateLoop-History. MAIL
is a file, - for standard input, or the text of that field. The exit code is 0
if no line up to that one was changed, and otherwise 1.

Example:
  agentstateloop history --follow
  agentstateloop history --search "red door key"
  agentstateloop history --cost --by sender
  agentstateloop history --trace trace.4c1f
  agentstateloop history --verify answer.eml`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "n", Usage: "`LINES`: how many; 0 for all", Value: 20},
			switchFlag("follow", "go on with what happens from now on"),
			&cli.StringFlag{Name: "search", Usage: "search what was said for `WORDS`"},
			&cli.StringFlag{Name: "trace", Usage: "show the chain with this `ID`"},
			switchFlag("cost", "show what turns have cost"),
			&cli.StringFlag{Name: "verify", Usage: "compare the history with a `MAIL` of the agent"},
			&cli.StringFlag{Name: "by", Usage: "`WHAT`: with --cost, by turn, day, month or sender", DefaultText: byDay},
		},
		Action: historyCmd{p.agents(), p.loader, p.stdin, &p.out, p.unread}.run,
	}
}

func (h historyCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	n := c.Int("n")
	if n < 0 {
		return terminal.Usagef("see "+name+" history --help", "-n must be a number of lines, or 0 for all")
	}
	print := func(l state.Line) error {
		if c.Bool("json") {
			return h.out.JSONLine(l)
		}
		_, err := fmt.Fprintln(h.out.Stdout, lineText(l, h.loader.Now()))
		return err
	}
	if c.IsSet("trace") {
		return h.trace(c, print)
	}
	if c.IsSet("verify") {
		return h.verify(c)
	}
	if c.IsSet("search") {
		return h.search(c)
	}
	if c.Bool("cost") {
		return h.cost(c)
	}
	if c.IsSet("by") {
		return terminal.Usagef("see "+name+" history --help", "--by works only with --cost")
	}
	a, err := h.agents.load(c)
	if err != nil {
		return err
	}
	tail := historyTail{store: a.Store, most: n, unread: h.unread}
	if err := tail.print(print); err != nil || !c.Bool("follow") {
		return err
	}
	return tail.follow(c.Context, print)
}

// historyTail walks the history to its end, and later on from there.
type historyTail struct {
	store *store.Store
	most  int        // lines of the first walk; 0: all
	last  state.Line // the newest line that was walked
	seen  uint64     // serial of the state at the last walk

	unread func() bool // nobody reads what is printed any more
}

// walk takes the lines that it has not walked before, one at a time.
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

// print prints the lines that it has not walked before.
func (t *historyTail) print(print func(state.Line) error) error {
	var lines []state.Line
	err := t.walk(func(l state.Line) {
		lines = append(lines, l)
		if t.most > 0 && len(lines) >= 2*t.most {
			lines = append(lines[:0], lines[len(lines)-t.most:]...)
		}
	})
	if err != nil {
		return err
	}
	if t.most > 0 && len(lines) > t.most {
		lines = lines[len(lines)-t.most:]
	}
	for _, l := range lines {
		if err := print(l); err != nil {
			return err
		}
	}
	t.most = 0
	return nil
}

// follow prints new lines until ctx ends, or nobody reads them. It then returns nil. It walks the
// history only when the state says that there is something new.
func (t *historyTail) follow(ctx context.Context, print func(state.Line) error) error {
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
		if err := t.print(print); err != nil {
			return err
		}
	}
}

// lineText returns a history line for a person.
func lineText(l state.Line, now time.Time) string {
	parts := []string{fmt.Sprintf("%-10s", l.Kind)}
	add := func(format string, text string) {
		if text != "" {
			parts = append(parts, fmt.Sprintf(format, plain.Line(text)))
		}
	}
	if l.New != "" {
		add("%s", string(l.Old)+" → "+string(l.New))
	}
	add("%s", l.What)
	add("%s", string(l.Outcome))
	add("from %s", l.From)
	add("to %s", l.To)
	if l.Effect != nil {
		add("to %s", l.Effect.To)
	}
	if l.Kind == state.LineEdge {
		add("on %s", l.Request)
		add("by %s", l.Response)
	}
	add("gate %s", l.Gate)
	if l.Spending != nil {
		add("%s", l.Spending.Cost.String())
		add("for %s", l.Spending.Model)
	}
	if l.Amount != 0 {
		add("%s", l.Amount.String())
	}
	add("%s", l.Reason)
	add("%s", l.Text)
	for _, id := range []string{l.ID, l.TurnID, l.Key} {
		if id != "" {
			add("(%s)", id)
			break
		}
	}
	return terminal.Clock(l.At, now) + "  " + strings.Join(parts, " ")
}
