package doctor

import (
	"context"

	"agentstateloop/commands/config"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

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
	e.cronLoader = e.withCronEnviron()
	if e.agent != nil {
		// Look for each secret where a cron job looks, and only there.
		e.agent, _ = e.cronLoader.Wire(e.config)
	}
	e.readState()
	return e, found
}

func (e *examination) readState() {
	if e.agent != nil {
		e.state, e.stateErr = e.agent.Store.Read()
	}
}

// withCronEnviron returns the loader of this process with the environment of a cron
// job.
func (e *examination) withCronEnviron() *config.Loader {
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
	loader.Environ = append(loader.Environ, cron.Environ(e.table, handle)...)
	return &loader
}
