// Package doctor examines an agent as cron would see it: configuration, secrets, mail, mesh,
// crontab, files, clock and the agent's program. Examine sends no mail or message,
// marks no mail as read and writes no file of the agent. Fix repairs the problems that have exactly
// one right answer.
//
// The method examination.checks lists all checks. Each check is a small struct that holds its
// inputs, in a file named after its subject.
package doctor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/internal/plain"
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
	mendable := e.foreign() == nil
	for i, f := range found {
		if f.fix != nil && mendable {
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
