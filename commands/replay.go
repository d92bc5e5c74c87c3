package commands

import (
	"cmp"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/replay"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	from, to, turnCost       string
	listen, summary, offline bool
	turnTime                 time.Duration
}

func replayCommand(p *program) *cli.Command {
	var o replayOptions
	return &cli.Command{
		Name:      "replay",
		Usage:     "show what last month's mail would have caused",
		ArgsUsage: "DIR|FILE...",
		Description: `Plays the mails of a Maildir, an mbox, .eml files or a folder of them at their
times, on a clock of its own, with the settings of the agent: polls, phases,
acks, turns, answers and quiet mails. It reads each mail twice, so it does not
read standard input or a pipe. The summary tells how long people would have
waited, and the cost. It sends no mail and changes no file. It begins with an
agent that has never polled. "agentstateloop explain FILE" tells why a mail was
set aside.

Without --from, it begins 30 days before the last mail. Without --to, it ends
with that mail, when the agent is IDLE again. A time is 2026-03-02,
"2026-03-02 08:00", RFC 3339, or 30d for 30 days ago.

A turn takes the median time and cost of the turns in the agent's history that
succeeded, with the model of the last of them. Without a history it takes 1m30s
and costs $0.10, or is free with runner = "exec". docs/replay.md tells what else
is assumed.

Examples:
  agentstateloop replay ~/Maildir
  agentstateloop replay --from 2026-03-01 --to 2026-03-31 --summary inbox.mbox
  agentstateloop replay --turn-time 5m --turn-cost 0.40 --listen ~/Maildir`,
		Flags: []cli.Flag{
			textFlag(&o.from, "from", "`TIME` of the first mails"),
			textFlag(&o.to, "to", "`TIME` of the last mails; of a date, its end"),
			switchFlag(&o.listen, "listen", "as if listen was running: a mail is polled at once"),
			switchFlag(&o.summary, "summary", "print only the summary"),
			durationFlag(&o.turnTime, "turn-time", "`DURATION` of each turn", 0),
			textFlag(&o.turnCost, "turn-cost", "cost of each turn, in `USD`"),
			switchFlag(&o.offline, "offline", "do not ask the DNS for keys"),
		},
		Action: p.agentAction(1, math.MaxInt, o.run),
	}
}

// defaultReplay is how long before the last mail a replay begins.
const defaultReplay = 30 * 24 * time.Hour

func (o *replayOptions) run(c *call, a *cycle.Agent) error {
	if a.Mail == nil {
		return cycle.ErrNoMail
	}
	assumed, err := o.assumed(a)
	if err != nil {
		return err
	}
	skipped := 0
	mails, err := replay.Find(c.ctx, c.args, a.Mail.Filter.MaxSize, c.now(), func(name string, why error) error {
		skipped++
		c.out.Warn("%s: %s", plain.Line(name), plain.Line(why.Error()))
		return nil
	})
	if c.ctx.Err() != nil {
		return cycle.ErrInterrupted
	}
	if errors.Is(err, replay.ErrReadTwice) {
		return terminal.Usagef("save the mails to a file, and give its name", "%v", err)
	}
	if err != nil {
		return err
	}
	zone := cmp.Or(a.Policy.Location, time.Local)
	from, to, err := o.span(mails, c.now(), zone)
	if err != nil {
		return err
	}
	opts := replay.Options{Agent: a, Mails: mails, From: from, To: to, Listen: o.listen, Offline: o.offline, Assumed: assumed}
	story := present.NewReplayStory(zone)
	switch {
	case o.summary:
	case c.json:
		opts.Emit = func(e replay.Entry) error { return c.out.JSONLine(replayLineOf(e)) }
	default:
		c.out.Printf("A replay for @%s of the mails from %s to %s.\nNothing is sent or changed.\n", a.Handle, from.In(zone).Format(time.DateTime), to.In(zone).Format(time.DateTime))
		opts.Emit = func(e replay.Entry) error {
			_, err := io.WriteString(c.out.Wrapped(), story.Add(e))
			return err
		}
	}
	sum, err := replay.Run(c.ctx, opts)
	if err != nil {
		return err
	}
	sum.Unreadable += skipped
	if c.json {
		return c.out.JSONLine(replayEnd(sum))
	}
	c.out.Printf("%s", story.End())
	return c.printReplay(sum, zone)
}

// assumed returns the figures of turns: those of the flags, or else of the history.
func (o *replayOptions) assumed(a *cycle.Agent) (replay.Assumed, error) {
	var cost *state.Micros
	if o.turnCost != "" {
		usd, err := strconv.ParseFloat(strings.TrimPrefix(o.turnCost, "$"), 64)
		amount, ok := state.Dollars(usd)
		if err != nil || !ok || amount > state.MaxSpent {
			return replay.Assumed{}, terminal.Usagef("write dollars, such as 0.25", "--turn-cost %q is not an amount between 0 and %v", o.turnCost, state.MaxSpent)
		}
		cost = &amount
	}
	assumed, err := replay.Assume(a.Store.History(), a.Turn != nil && a.Turn.Runner == turn.Exec)
	if err != nil {
		return assumed, err
	}
	assumed.Fix(orNull(o.turnTime), cost)
	return assumed, nil
}

// span returns the time of a replay.
func (o *replayOptions) span(mails *replay.Mails, now time.Time, zone *time.Location) (from, to time.Time, err error) {
	if to = mails.Last().Add(time.Second); mails.Last().IsZero() {
		to = now
	}
	if o.to != "" {
		if to, err = terminal.ParsePast(o.to, now, zone, true); err != nil {
			return from, to, terminal.Usagef("", "--to %s %v", o.to, err)
		}
	}
	from = to.Add(-defaultReplay)
	if o.from != "" {
		if from, err = terminal.ParsePast(o.from, now, zone, false); err != nil {
			return from, to, terminal.Usagef("", "--from %s %v", o.from, err)
		}
	}
	if !from.Before(to) {
		return from, to, terminal.Usagef("", "the replay would end before it begins: --from is %s, and --to is %s", from.In(zone).Format(time.RFC3339), to.In(zone).Format(time.RFC3339))
	}
	return from, to, nil
}

// printReplay prints the summary of a replay.
func (c *call) printReplay(sum replay.Summary, zone *time.Location) error {
	if err := c.out.Grid([]terminal.Column{{}, {}}, present.ReplayRows(sum, zone)); err != nil {
		return err
	}
	explain := func(args ...string) string {
		command := name + " explain"
		for _, arg := range args {
			command += " " + quotedForShell(plain.Line(arg))
		}
		return command
	}
	for _, part := range []struct {
		title string
		rows  [][]string
	}{
		{"set aside", present.ReplayAside(sum, explain)},
		{"cost by day", present.ReplayDays(sum)},
	} {
		if len(part.rows) == 0 {
			continue
		}
		c.out.Printf("\n%s:\n", part.title)
		if err := c.out.Grid([]terminal.Column{{}, {}, {}}, part.rows); err != nil {
			return err
		}
	}
	for _, note := range present.ReplayNotes(sum) {
		c.out.Printf("%s\n", note)
	}
	return nil
}

// replayLine is the JSON output for an event of a replay, and for its summary.
type replayLine struct {
	At      time.Time   `json:"at"`
	Event   replay.Kind `json:"event"`
	Phase   state.Phase `json:"phase"`
	File    *string     `json:"file"`
	From    *string     `json:"from"`
	Subject *string     `json:"subject"`
	Mail    *string     `json:"mail"`
	Text    *string     `json:"text"`
	Gate    *string     `json:"gate"`
	Reason  *string     `json:"reason"`
	Count   int         `json:"count"`
	Waited  float64     `json:"waited_seconds"`
	USD     float64     `json:"usd"`
	Until   *time.Time  `json:"until"`

	Summary *replaySummary `json:"summary"`
}

func replayLineOf(e replay.Entry) replayLine {
	return replayLine{
		At: e.At.UTC(), Event: e.Kind, Phase: e.Phase, File: orNull(e.File), From: orNull(e.From), Subject: orNull(e.Subject),
		Mail: orNull(string(e.Mail)), Text: orNull(e.Text), Gate: orNull(e.Gate), Reason: orNull(e.Reason), Count: e.Count,
		Waited: e.Waited.Seconds(), USD: e.Cost.USD(), Until: orNull(e.Until),
	}
}

// replaySummary is the JSON output for a summary.
type replaySummary struct {
	From       time.Time          `json:"from"`
	To         time.Time          `json:"to"`
	Mails      int                `json:"mails"`
	Others     int                `json:"not_for_this_agent"`
	Undecided  int                `json:"undecided"`
	Messages   int                `json:"messages"`
	Controls   int                `json:"controls"`
	Copies     int                `json:"copies"`
	SetAside   []replayAside      `json:"set_aside"`
	Turns      int                `json:"turns"`
	Stopped    int                `json:"stopped"`
	Answers    int                `json:"answers"`
	Sent       map[string]int     `json:"sent"`
	Deferred   int                `json:"deferred"`
	Unanswered int                `json:"unanswered"`
	Prompts    int                `json:"prompts"`
	Left       int                `json:"prompts_left_out"`
	Polls      int                `json:"polls"`
	Minutes    map[string]float64 `json:"phase_minutes"`
	USD        float64            `json:"usd"`
	DayUSD     *float64           `json:"budget_day_usd"`
	Days       []replayDay        `json:"days"`
	Wait       *replayWait        `json:"wait_seconds"`
	Turn       replayFigure       `json:"turn"`
	TurnLow    replayFigure       `json:"turn_low"`
	Undated    int                `json:"undated"`
	Future     int                `json:"future"`
	Unordered  int                `json:"unordered"`
	Unreadable int                `json:"unreadable"`
}

type replayAside struct {
	Gate  string  `json:"gate"`
	Count int     `json:"count"`
	File  *string `json:"file"`
}

type replayDay struct {
	Day string  `json:"day"`
	USD float64 `json:"usd"`
}

type replayWait struct {
	Median  float64 `json:"median"`
	P90     float64 `json:"p90"`
	Longest float64 `json:"longest"`
}

type replayFigure struct {
	Seconds     float64       `json:"seconds"`
	SecondsFrom replay.Source `json:"seconds_from"`
	USD         float64       `json:"usd"`
	USDFrom     replay.Source `json:"usd_from"`
	Model       *string       `json:"model"`
	Turns       int           `json:"turns"`
}

func replayFigureOf(f replay.Figure) replayFigure {
	ofTime, ofCost := f.Sources()
	return replayFigure{
		Seconds: f.Time.Seconds(), SecondsFrom: ofTime, USD: f.Cost.USD(), USDFrom: ofCost, Model: orNull(f.Model), Turns: f.Turns,
	}
}

// replayEnd returns the last line of the output.
func replayEnd(s replay.Summary) replayLine {
	end := &replaySummary{
		From: s.From.UTC(), To: s.Ended.UTC(), Mails: s.Mails, Others: s.Others, Undecided: s.Undecided, Messages: s.Messages,
		Controls: s.Controls, Copies: s.Copies, SetAside: []replayAside{}, Turns: s.Turns, Stopped: s.Stopped, Answers: s.Answers,
		Sent: map[string]int{}, Deferred: s.Deferred, Unanswered: s.Unanswered, Prompts: s.Prompts, Left: s.PromptsLeft, Polls: s.Polls,
		Minutes: map[string]float64{}, USD: s.Cost.USD(), Days: []replayDay{}, Turn: replayFigureOf(s.Assumed.Normal),
		TurnLow: replayFigureOf(s.Assumed.Low), Undated: s.Undated, Future: s.Future, Unordered: s.Unordered, Unreadable: s.Unreadable,
	}
	for _, a := range s.Aside {
		end.SetAside = append(end.SetAside, replayAside{Gate: a.Gate, Count: a.Count, File: orNull(a.Name)})
	}
	for kind, n := range s.Sent {
		end.Sent[string(kind)] = n
	}
	for phase, spent := range s.Phases {
		end.Minutes[string(phase)] = spent.Minutes()
	}
	for _, d := range s.Days {
		end.Days = append(end.Days, replayDay{Day: d.Day, USD: d.Cost.USD()})
	}
	if s.DayBudget > 0 {
		end.DayUSD = orNull(s.DayBudget.USD())
	}
	if w := s.Wait; w.Mails > 0 {
		end.Wait = &replayWait{Median: w.Median.Seconds(), P90: w.P90.Seconds(), Longest: w.Longest.Seconds()}
	}
	return replayLine{At: s.Ended.UTC(), Event: "summary", Phase: s.Phase, Summary: end}
}
