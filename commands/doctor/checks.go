package doctor

import (
	"context"
	"os"
)

// check examines one part of an agent.
type check interface {
	run(ctx context.Context) []Finding
}

// checks returns all checks in the order of their lines.
func (e *examination) checks() []check {
	path, now := e.cronLoader.Env("PATH"), e.Loader.Now
	crontab := crontabCheck{mode: e.mode, table: e.crontab, text: e.table, err: e.tableErr, proc: e.Proc, lines: []string{e.state.Schedule.Installed, e.state.Schedule.AlarmLine}, lastError: e.state.Schedule.Error}
	environment := environmentCheck{mode: e.mode, loader: e.cronLoader, readable: e.tableErr == nil}
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
		e.withNetwork(meshCheck{config: e.config, mesh: a.Mesh, handle: a.Handle, keymaster: a.Policy.Keymaster, outbox: e.state.Outbox, now: now}, a.Mesh != nil, "mesh", "mesh"),
		meshKeysCheck{config: e.config, mesh: a.Mesh, keymaster: a.Policy.Keymaster},
		crontab,
		lineCheck{agent: a, mode: e.mode, table: e.table, readable: e.tableErr == nil, state: e.state, err: e.stateErr},
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
		pollsCheck{config: e.config, state: e.state, err: e.stateErr, mode: e.mode, hasMail: a.Mail != nil, dir: a.Store.Dir, now: now},
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
