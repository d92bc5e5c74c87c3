// Package doctor examines an agent as cron would see it: configuration, secrets,
// mail, mesh, crontab, files, clock and the agent's program. Examine sends, writes
// and marks nothing. Fix mends what has one right answer.
//
// The checks stand in one table, examination.checks. Each check is a small struct
// that holds its inputs, in a file named after what it examines.
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

// Subject holds what Examine needs to know about an agent and this process.
type Subject struct {
	Loader  *config.Loader // of this process
	Path    string         // of the configuration
	Missing error          // why Path is empty; nil if it is not
	Network bool           // whether mail servers and mesh may be contacted
	Proc    string         // where procfs is mounted, such as /proc
}

// checkTimeout limits how long one check may take.
const checkTimeout = 40 * time.Second

// Examine runs all checks in parallel and returns their findings in the order of
// the table. Each check sees the environment of a cron job instead of that of this
// process. With mode = "none" in [schedule] it sees that of this process.
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

// examine runs all checks. The examination holds what they have found out together.
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

// runCheck runs one check, for as long as it may take.
func runCheck(ctx context.Context, c check) []Finding {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("timed out after %v", checkTimeout))
	defer cancel()
	return c.run(ctx)
}
