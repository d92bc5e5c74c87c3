package doctor

import "context"

// check looks at one thing.
type check interface {
	run(ctx context.Context) []Finding
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
