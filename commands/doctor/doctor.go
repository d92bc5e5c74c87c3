// Package doctor examines an agent as cron would see it: configuration, secrets,
// mail, mesh, crontab, files, clock and the agent's program. It sends, writes
// and marks nothing.
//
// The checks stand in one table, examination.checks. Each is a small struct that
// holds the inputs it looks at.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Subject is what Examine looks at.
type Subject struct {
	Loader  *config.Loader // of this process
	Path    string         // of the configuration
	Missing error          // why there is no Path
	Network bool           // whether mail servers and mesh may be asked
	Proc    string         // where the kernel shows its processes: /proc
}

// checkTimeout bounds one check.
const checkTimeout = 40 * time.Second

// check looks at one thing.
type check interface {
	run(ctx context.Context) []Finding
}

// Examine runs all checks, in parallel, and returns their findings in the order
// of the table. Each check sees the environment of a cron job, not that of this
// process.
func Examine(ctx context.Context, s Subject) []Finding {
	e, found := examine(ctx, s)
	checks := e.checks()
	results := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(s.Loader.Secrets.Guarded(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("no answer within %v", checkTimeout))
			defer cancel()
			results[i] = check.run(ctx)
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

// examination is what the checks get their inputs from. Without a configuration
// config and agent are nil.
type examination struct {
	Subject
	job      *config.Loader // with the environment of a job of cron
	config   *config.Config
	agent    *cycle.Agent // with the parts that could be wired
	mode     string       // how polls are fired, as far as known
	crontab  cron.Table
	table    []byte // the crontab's text
	tableErr error
	state    state.State
	stateErr error
}

// examine reads the configuration, the crontab and the state.
func examine(ctx context.Context, s Subject) (*examination, []Finding) {
	e := &examination{Subject: s, job: s.Loader, mode: cycle.ModeCrontab}
	found := e.readConfig()
	if e.agent != nil {
		e.crontab = e.agent.Schedule.Table
		if e.agent.Schedule.Mode != "" {
			e.mode = e.agent.Schedule.Mode
		}
	}
	if e.mode == cycle.ModeNone {
		// Something else polls. Its environment is not known, and ours stays.
		e.readState()
		return e, found
	}
	e.table, e.tableErr = e.crontab.Read(ctx)
	e.job = e.jobLoader()
	if e.agent != nil {
		// A secret must be found where cron finds it, and only there.
		e.agent, _ = e.job.Wire(e.config)
	}
	e.readState()
	return e, found
}

func (e *examination) readState() {
	if e.agent != nil {
		e.state, e.stateErr = e.agent.Store.Read()
	}
}

// jobLoader returns the loader of this process with the environment of a job.
func (e *examination) jobLoader() *config.Loader {
	job := *e.Loader
	home, _ := e.Loader.Home()
	job.Environ = []string{"PATH=" + cron.JobPath, "HOME=" + home, "SHELL=/bin/sh"}
	for _, key := range []string{"LOGNAME", "USER"} {
		if value := e.Loader.Env(key); value != "" {
			job.Environ = append(job.Environ, key+"="+value)
		}
	}
	handle := ""
	if e.agent != nil {
		handle = e.agent.Handle
	}
	job.Environ = append(job.Environ, cron.Environ(e.table, handle)...)
	return &job
}

// checks is the table of all checks, in the order of their lines.
func (e *examination) checks() []check {
	path, now := e.job.Env("PATH"), e.Loader.Now
	crontab := crontabCheck{mode: e.mode, table: e.crontab, text: e.table, err: e.tableErr, proc: e.Proc, lastError: e.state.Schedule.Error}
	environment := environmentCheck{mode: e.mode, job: e.job, readable: e.tableErr == nil}
	daemon := daemonCheck{mode: e.mode, proc: e.Proc}
	clock := clockCheck{lastStep: e.state.LastStep, now: now}
	if e.agent == nil {
		return []check{
			unknown("secrets"), unknown("imap"), unknown("smtp"), unknown("mesh"),
			crontab, unknown("line"), environment, daemon,
			unknown("state"), clock, unknown("agent"), unknown("polls"),
		}
	}
	a := e.agent
	return []check{
		secretsCheck{job: e.job, config: e.config, agent: a, path: path},
		e.online(imapCheck{mail: a.Mail, handle: a.Handle, now: now}, a.Mail != nil, "mail", "imap", "stamps"),
		e.online(smtpCheck{mail: a.Mail}, a.Mail != nil, "mail", "smtp"),
		e.online(meshCheck{mesh: a.Mesh, handle: a.Handle, keymaster: a.Policy.Keymaster, now: now}, a.Mesh != nil, "mesh", "mesh"),
		crontab,
		lineCheck{agent: a, mode: e.mode, table: e.table, readable: e.tableErr == nil, state: e.state},
		binaryCheck{mode: e.mode, self: a.Schedule.Binary, pinned: e.state.Schedule.Binary, version: e.Loader.Version},
		environment,
		daemon,
		stateDirCheck{dir: a.Store.Dir, err: e.stateErr},
		clock,
		agentCheck{job: e.job, config: e.config, turn: a.Turn, network: e.Network},
		promptCheck{agent: a},
		pollsCheck{state: e.state, err: e.stateErr, mode: e.mode, dir: a.Store.Dir, now: now},
	}
}

// online returns a check that needs the network and a section of the
// configuration, or says why it is skipped. names are those of its findings.
func (e *examination) online(c check, wired bool, section string, names ...string) check {
	switch {
	case !wired && e.config.Has(section):
		return skipped{skip(names[0], "["+section+"] has an error, see config", "")}
	case !wired:
		return skipped{skip(names[0], "no ["+section+"] is configured", "")}
	case e.Network:
		return c
	}
	var all skipped
	for _, name := range names {
		all = append(all, skip(name, "needs the network", "run doctor without --no-network"))
	}
	return all
}

// skipped is a check that is not made, and why.
type skipped []Finding

func (s skipped) run(context.Context) []Finding { return s }

// unknown is for a check that needs a configuration.
func unknown(name string) check {
	return skipped{skip(name, "there is no usable configuration, see config", "")}
}

// stateHint is what to do about a state that cannot be read.
func stateHint(err error) string {
	if errors.Is(err, store.ErrOtherAgent) {
		return "give each agent a state_dir of its own in [agent]"
	}
	return "no poll runs until this is fixed; see docs/files.md"
}
