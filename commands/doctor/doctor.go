// Package doctor examines an agent as cron would see it: configuration, secrets, mail, mesh,
// crontab, files, clock and the agent's program. Examine sends no mail or message,
// marks no mail as read and writes no file of the agent. Fix repairs the problems that have exactly
// one right answer.
//
// The method examination.checks lists all checks. Each check is a small struct that holds its
// inputs. Checks of related subjects share a file.
package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// Subject identifies the agent to examine, and holds the inputs of Examine from this process.
type Subject struct {
	Loader  *config.Loader // of this process
	Path    string         // of the configuration
	Missing error          // why Path is empty; nil if it is set
	Network bool           // whether mail servers and mesh may be contacted
	Proc    string         // where procfs is mounted, such as /proc
}

// checkTimeout limits how long one check may take.
const checkTimeout = 40 * time.Second

// Examine runs all checks in parallel and returns their findings in the order of the list. Each
// check sees the environment of a cron job instead of this process's environment. With mode =
// "none" in [schedule] it sees the environment of this process.
func Examine(ctx context.Context, s Subject) []Finding {
	e, found := s.examine(ctx)
	fixable := e.checkOwner() == nil
	for i, f := range found {
		if f.fix != nil && fixable {
			found[i].Hint = strings.TrimPrefix(f.Hint+"; "+fixHint, "; ")
		}
		found[i].Text, found[i].Hint = plain.Line(found[i].Text), plain.Line(found[i].Hint)
	}
	return found
}

// examine runs all checks. The examination holds their shared inputs.
func (s Subject) examine(ctx context.Context) (*examination, []Finding) {
	e, found := examine(ctx, s)
	checks := e.checks()
	results := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(s.Loader.Secrets.Guarded(func() {
			results[i] = runCheck(ctx, check)
		}))
	}
	all.Wait()
	for _, r := range results {
		found = append(found, r...)
	}
	return e, found
}

// runCheck runs one check, with a time limit.
func runCheck(ctx context.Context, c check) []Finding {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("timed out after %v", checkTimeout))
	defer cancel()
	return c.run(ctx)
}

// check examines one part of an agent.
type check interface {
	run(ctx context.Context) []Finding
}

// checks returns all checks in the order of their lines.
func (e *examination) checks() []check {
	path, now := e.cronLoader.Env("PATH"), e.Loader.Now
	crontab := crontabCheck{mode: e.mode, table: e.crontab, text: e.table, err: e.tableErr, proc: e.Proc, lines: []string{e.state.Schedule.Installed, e.state.Schedule.AlarmLine}, lastError: e.state.Schedule.Error}
	environment := environmentCheck{mode: e.mode, loader: e.cronLoader, readable: e.tableErr == nil || cycle.HasTimer(e.mode), timer: cycle.HasTimer(e.mode)}
	daemon := daemonCheck{mode: e.mode, proc: e.Proc}
	user, _ := e.Loader.Account()
	homes := homeCheck{home: user.Home, note: e.Loader.HomeNote(), user: os.Getuid(), known: user.Known}
	clock := clockCheck{lastStep: e.state.LastStep, now: now}
	if e.agent == nil {
		return []check{
			needsConfig("secrets"), needsConfig("imap"), needsConfig("smtp"), needsConfig("mesh"),
			crontab, needsConfig("line"), homes, environment, daemon,
			needsConfig("state"), needsConfig("files"), needsConfig("history"), clock, needsConfig("agent"), needsConfig("polls"),
		}
	}
	a := e.agent
	return []check{
		secretsCheck{loader: e.cronLoader, config: e.config, agent: a, path: path},
		e.withNetwork(imapCheck{config: e.config, agent: a, now: now}, a.Mail != nil, "mail", "imap", "stamps"),
		e.withNetwork(smtpCheck{config: e.config, mail: a.Mail}, a.Mail != nil, "mail", "smtp"),
		e.withNetwork(sentCheck{mail: a.Mail, folder: a.Replies.Sent}, a.Mail != nil, "mail", "sent"),
		e.withNetwork(meshCheck{config: e.config, mesh: a.Mesh, handle: a.Handle, keymaster: a.Policy.Keymaster, fleet: a.Seat != nil, outbox: e.state.Outbox, now: now}, a.Mesh != nil, "mesh", "mesh"),
		meshKeysCheck{config: e.config, mesh: a.Mesh, keymaster: a.Policy.Keymaster},
		fleetCheck{agent: a, mode: e.mode, version: e.Loader.Version, network: e.Network, now: now},
		crontab,
		timerCheck{agent: a, mode: e.mode, table: e.table, state: e.state, err: e.stateErr},
		lineCheck{agent: a, mode: e.mode, standby: e.standby, table: e.table, readable: e.tableErr == nil, state: e.state, err: e.stateErr},
		binaryCheck{mode: e.mode, self: a.Schedule.Binary, pinned: e.state.Schedule.Binary, version: e.Loader.Version},
		homes,
		environment,
		daemon,
		stateDirCheck{dir: a.Store.Dir, store: a.Store, state: e.state, err: e.stateErr, handle: a.Handle, now: now},
		filesCheck{agent: a},
		historyCheck{store: a.Store},
		clock,
		agentCheck{loader: e.cronLoader, config: e.config, turn: a.Turn, network: e.Network, backends: a.Backends},
		boxCheck{config: e.config, agent: a, home: user.Home},
		toolServersCheck{loader: e.cronLoader, config: e.config, agent: a, network: e.Network},
		budgetCheck{agent: a, state: e.state},
		promptCheck{agent: a},
		hooksCheck{agent: a, state: e.state},
		promptsCheck{agent: a, state: e.state, now: a.Now()},
		heartbeatCheck{config: e.config, monitor: a.Heartbeat, network: e.Network},
		pollsCheck{config: e.config, standby: e.standby, state: e.state, err: e.stateErr, mode: e.mode, hasMail: a.Mail != nil, dir: a.Store.Dir, now: now},
	}
}

// withNetwork returns c, a check that needs the network and a section of the configuration. Without
// one of the two, it returns skipped findings with the given names.
func (e *examination) withNetwork(c check, wired bool, section string, names ...string) check {
	switch {
	case !wired && e.config.Has(section):
		return skipped{skip(names[0], "["+section+"] has an error; see config", "")}
	case !wired:
		return skipped{skip(names[0], "["+section+"] is not configured", "")}
	case e.Network:
		return c
	}
	var all skipped
	for _, name := range names {
		all = append(all, skip(name, "needs the network", "run doctor without --no-network"))
	}
	return all
}

// skipped is a check that does not run. Its findings state the reason.
type skipped []Finding

func (s skipped) run(context.Context) []Finding { return s }

// needsConfig returns a check that is skipped because the configuration is not usable.
func needsConfig(name string) check {
	return skipped{skip(name, "the configuration is not usable; see config", "")}
}

// examination holds the inputs of the checks. Without a usable configuration, config and agent are
// nil.
type examination struct {
	Subject
	cronLoader *config.Loader // with the environment of a cron job
	config     *config.Config
	agent      *cycle.Agent // with the parts that have no errors
	mode       string       // of [schedule]; the default without a configuration
	crontab    cron.Table
	table      []byte // text of the crontab
	tableErr   error  // of reading the crontab
	state      state.State
	stateErr   error // of reading the state
	standby    bool  // another host acts: the state is of that host
}

// examine reads the configuration, the crontab and the state. It also returns the
// findings about the configuration.
func examine(ctx context.Context, s Subject) (*examination, []Finding) {
	e := &examination{Subject: s, cronLoader: s.Loader, mode: cycle.ModeCrontab}
	found := e.readConfig()
	if e.agent != nil {
		e.crontab = e.agent.Schedule.Table
		if e.agent.Schedule.Mode != "" {
			e.mode = e.agent.Schedule.Mode
		}
	}
	if e.mode == cycle.ModeNone {
		// Another program polls. Its environment is unknown, so use ours.
		e.readState()
		return e, found
	}
	e.table, e.tableErr = e.crontab.Read(ctx)
	e.cronLoader = e.withCronEnviron(ctx)
	if e.agent != nil {
		// Look for each secret where a cron job looks, and only there.
		e.agent, _ = e.cronLoader.Wire(e.config)
	}
	e.readState()
	return e, found
}

func (e *examination) readState() {
	if e.agent == nil {
		return
	}
	e.state, e.stateErr = e.agent.Store.Read()
	if e.standby = e.agent.Seat != nil && e.agent.Seat.Here() != nil; e.standby {
		e.state.Schedule = state.Schedule{}
	}
}

// withCronEnviron returns the loader of this process with the environment of a cron
// job, or of a poll of the timer.
func (e *examination) withCronEnviron(ctx context.Context) *config.Loader {
	loader := *e.Loader
	home, _ := e.Loader.Home()
	loader.Environ = []string{"PATH=" + cron.JobPath, "HOME=" + home, "SHELL=/bin/sh"}
	for _, key := range []string{"LOGNAME", "USER"} {
		if value := e.Loader.Env(key); value != "" {
			loader.Environ = append(loader.Environ, key+"="+value)
		}
	}
	handle := ""
	if e.agent != nil {
		handle = e.agent.Handle
	}
	if cycle.HasTimer(e.mode) && e.agent != nil {
		set, _ := e.agent.Timer(state.State{}).Environ(ctx) // timerCheck reports the error
		loader.Environ = append(loader.Environ, set...)
		return &loader
	}
	loader.Environ = append(loader.Environ, cron.Environ(e.table, handle)...)
	return &loader
}
