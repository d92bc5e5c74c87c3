package doctor

import (
	"context"

	"agentstateloop/commands/config"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

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
