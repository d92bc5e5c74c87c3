package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// The levels of a finding, from good to bad. Only levelError makes doctor fail.
const (
	levelOK      = "ok"
	levelInfo    = "info"
	levelSkipped = "skipped"
	levelWarn    = "warn"
	levelError   = "error"
)

// finding is one line of doctor.
type finding struct {
	Check string
	Level string
	Text  string
	Hint  string // what to do; "" for what is ok
}

// findingJSON is a finding in doctor --json: null, never absent.
type findingJSON struct {
	Check string  `json:"check"`
	Level string  `json:"level"`
	Text  string  `json:"text"`
	Hint  *string `json:"hint"`
}

func (p *program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check everything as cron would see it",
		Description: `Checks configuration, secrets, mail, mesh, crontab, files, locks, clock and
agent, each with what cron gives a job and not with what your shell has. A
line a check: ok, info, warn, error or skipped, with a hint where one helps.
Exits 1 if there is an error. Nothing is sent, written or marked as read.

Example:
  agentstateloop doctor
  agentstateloop doctor --json | jq '.[] | select(.level == "error")'`,
		Flags: []cli.Flag{
			switchFlag("no-network", "leave mail servers and mesh alone"),
		},
		Action: p.doctor,
	}
}

func (p *program) doctor(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	path, err := p.configPath(c)
	if path == "" && c.IsSet("config") {
		return err
	}
	found := p.examine(c.Context, path, err, !c.Bool("no-network"))
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.Bool("json") {
		if err := p.out.JSON(findingsJSON(found)); err != nil {
			return err
		}
	} else {
		p.printFindings(found)
	}
	return unwell(found)
}

// unwell is the error of findings that hold one.
func unwell(found []finding) error {
	errs, warnings := countLevel(found, levelError), countLevel(found, levelWarn)
	if errs == 0 {
		return nil
	}
	text := terminal.Count(errs, "error")
	if warnings > 0 {
		text += " and " + terminal.Count(warnings, "warning")
	}
	return errors.New("doctor found " + text)
}

func countLevel(found []finding, level string) int {
	n := 0
	for _, f := range found {
		if f.Level == level {
			n++
		}
	}
	return n
}

func (p *program) printFindings(found []finding) {
	for _, f := range found {
		p.out.Printf("%-7s  %-11s  %s\n", f.Level, f.Check, f.Text)
		if f.Hint != "" {
			p.out.Printf("%-7s  %-11s  hint: %s\n", "", "", f.Hint)
		}
	}
}

func findingsJSON(found []finding) []findingJSON {
	all := []findingJSON{}
	for _, f := range found {
		j := findingJSON{Check: f.Check, Level: f.Level, Text: f.Text}
		if f.Hint != "" {
			j.Hint = &f.Hint
		}
		all = append(all, j)
	}
	return all
}

// patient is what is examined, as far as it is known. Each part may be missing.
type patient struct {
	*program
	path     string // of the configuration
	network  bool
	config   *config.Config
	agent    *cycle.Agent // with those parts that could be wired
	state    state.State
	stateErr error

	table    []byte // the crontab
	tableErr error
	jobPath  string // the PATH of a job
}

// checkPatience bounds one check that asks somebody else.
const checkPatience = 40 * time.Second

// examine makes all checks, those of the network side by side. From then on this
// process sees the environment of a job of cron, not its own.
func (p *program) examine(ctx context.Context, path string, missing error, network bool) []finding {
	d := &patient{program: p, path: path, network: network}
	found := d.checkConfig(missing)
	d.readTable(ctx)
	d.seeAsCron()
	if d.agent != nil {
		d.state, d.stateErr = d.agent.Store.Read()
	}
	checks := []func(context.Context) []finding{
		d.checkSecrets,
		d.checkMailbox,
		d.checkSMTP,
		d.checkMesh,
		d.checkCrontab,
		d.checkLine,
		d.checkBinary,
		d.checkEnvironment,
		d.checkDaemon,
		d.checkLocks,
		d.checkStateDir,
		d.checkClock,
		d.checkAgent,
		d.checkPrompt,
		d.checkState,
	}
	results := make([][]finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(d.loader.Secrets.Guarded(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, checkPatience, fmt.Errorf("no answer within %v", checkPatience))
			defer cancel()
			results[i] = check(ctx)
		}))
	}
	all.Wait()
	for _, r := range results {
		found = append(found, r...)
	}
	for i := range found {
		found[i].Text, found[i].Hint = plain.Line(found[i].Text), plain.Line(found[i].Hint)
	}
	return found
}

// seeAsCron makes this process's environment that of a job, so that a secret is
// found here where cron finds it, and only there. Where something else polls,
// its environment is not known, and ours stays.
func (d *patient) seeAsCron() {
	d.jobPath = d.loader.Env("PATH")
	if d.agent != nil && d.agent.Schedule.Mode == cycle.ModeNone {
		return
	}
	home, _ := d.loader.Home()
	environ := []string{"PATH=" + cron.JobPath, "HOME=" + home, "SHELL=/bin/sh"}
	for _, key := range []string{"LOGNAME", "USER"} {
		if value := d.loader.Env(key); value != "" {
			environ = append(environ, key+"="+value)
		}
	}
	d.loader.Environ = append(environ, cron.Environ(d.table, d.handle())...)
	d.jobPath = d.loader.Env("PATH")
}

// handle is the agent's, or "" where the configuration does not say.
func (d *patient) handle() string {
	if d.agent == nil {
		return ""
	}
	return d.agent.Handle
}

// Findings are made by these. A hint is given wherever the level is not ok.

func good(check, format string, args ...any) finding {
	return finding{Check: check, Level: levelOK, Text: fmt.Sprintf(format, args...)}
}

func finds(level, check, hint, format string, args ...any) finding {
	return finding{Check: check, Level: level, Text: fmt.Sprintf(format, args...), Hint: hint}
}

func skipped(check, why, hint string) []finding {
	return []finding{{Check: check, Level: levelSkipped, Text: why, Hint: hint}}
}

// unknown is for what cannot be checked before there is a configuration.
func unknown(check string) []finding {
	return skipped(check, "there is no configuration to go by, see config", "")
}

// failure is an error as a finding, with the hint that belongs to the error, or
// else the one given.
func failure(check, hint string, err error) finding {
	if own := ownHint(err); own != "" {
		hint = own
	}
	return finding{Check: check, Level: levelError, Text: err.Error(), Hint: hint}
}

// offline is the finding for a check that needs the network; nil if it may be
// used.
func (d *patient) offline(check string) []finding {
	if d.network {
		return nil
	}
	return skipped(check, "needs the network", "run doctor without --no-network")
}

// inPath finds a program in a PATH; "" where it is not there.
func inPath(program, path string) string {
	for dir := range strings.SplitSeq(path, ":") {
		if file := executableIn(dir, program); file != "" {
			return file
		}
	}
	return ""
}
