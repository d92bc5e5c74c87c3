package apirunner

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"agentstateloop/commands/config"
	"agentstateloop/turn/react"
	"agentstateloop/turn/toolserver"
)

// withoutSandbox removes the tools and servers that need a sandbox, on a machine that cannot create
// one, and tells the model.
func (b toolbox) withoutSandbox(why error, names []string, servers []toolserver.Server) ([]string, []toolserver.Server) {
	if slices.Contains(names, react.Exec) {
		b.watch.notes = append(b.watch.notes, fmt.Sprintf("The tool exec is not available: %v.", why))
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == react.Exec })
	}
	return names, slices.DeleteFunc(slices.Clone(servers), func(s toolserver.Server) bool {
		if s.URL == "" {
			b.watch.notes = append(b.watch.notes, fmt.Sprintf("The tools of %s are not available: %v.", s.Name, why))
		}
		return s.URL == ""
	})
}

// maxServerTools limits the tools of servers in a turn. Providers accept 128 tools.
const maxServerTools = 100

// serverTools starts the servers in parallel, and returns the tools that patterns permit, sorted by
// server and then by tool name. It notes missing tools for the model.
func (b toolbox) serverTools(ctx context.Context, servers []toolserver.Server, patterns config.Patterns) (tools []react.Tool, sessions []*toolserver.Session) {
	started := make([]*toolserver.Session, len(servers))
	errs := make([]error, len(servers))
	var wait sync.WaitGroup
	for i, server := range servers {
		wait.Go(b.loader.Secrets.Guarded(func() { started[i], errs[i] = toolserver.Start(ctx, b.inSandbox(server)) }))
	}
	wait.Wait()
	for i, server := range servers {
		if errs[i] != nil {
			b.watch.notes = append(b.watch.notes, fmt.Sprintf("The tools of %s are not available in this turn: %v.", server.Name, errs[i]))
			continue
		}
		sessions = append(sessions, started[i])
		theirs, notes := started[i].Tools(func(tool string) bool { return patterns.Allow(server.Name, tool) })
		if notes != "" {
			b.watch.notes = append(b.watch.notes, fmt.Sprintf("Not all tools of %s are available: %s.", server.Name, notes))
		}
		for _, name := range patterns.Missing(server.Name, started[i].Names()) {
			b.watch.notes = append(b.watch.notes, fmt.Sprintf("The tool server %s does not list the tool %s now.", server.Name, name))
		}
		tools = b.add(tools, theirs, server.Name)
	}
	return tools, sessions
}

// add appends the tools of a server to those of others, up to the limit.
func (b toolbox) add(tools, theirs []react.Tool, server string) []react.Tool {
	if left := maxServerTools - len(tools); len(theirs) > left {
		b.watch.notes = append(b.watch.notes, fmt.Sprintf("%d tools of %s are left out: the limit is %d server tools per turn.", len(theirs)-left, server, maxServerTools))
		theirs = theirs[:left]
	}
	return append(tools, theirs...)
}

// inSandbox returns a server as configured for this turn, with the folders of exec.
func (b toolbox) inSandbox(s toolserver.Server) toolserver.Server {
	folders := b.watch.folders
	s.Way, s.Box = b.way, folders.Grant(s.Box, folders.Workdir)
	s.Keep = folders.SavePicture
	return s
}

// closeServers stops the servers in parallel.
func (r *Runner) closeServers() {
	var wait sync.WaitGroup
	for _, s := range r.servers {
		wait.Go(r.Loader.Secrets.Guarded(s.Close))
	}
	wait.Wait()
}
