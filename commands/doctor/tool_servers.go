package doctor

import (
	"context"
	"slices"
	"strings"
	"sync"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/turn"
	"agentstateloop/turn/box"
	"agentstateloop/turn/react"
	"agentstateloop/turn/toolserver"
)

// toolServersCheck starts each MCP server as a turn would, lists its tools and stops it.
type toolServersCheck struct {
	loader  *config.Loader
	config  *config.Config
	agent   *cycle.Agent
	network bool
}

func (c toolServersCheck) run(ctx context.Context) []Finding {
	if c.agent.Turn == nil || c.agent.Turn.Runner != turn.API {
		return nil
	}
	api, err := c.loader.API(c.config)
	if err != nil {
		return nil // see config
	}
	way, noBox := box.Way{}, error(nil)
	if slices.ContainsFunc(api.Servers, func(s toolserver.Server) bool { return s.URL == "" }) {
		way, noBox = box.Find(ctx, c.agent.Turn.Self)
	}
	found := make([][]Finding, len(api.Servers))
	var wait sync.WaitGroup
	for i, s := range api.Servers {
		name := "tool." + s.Name
		switch {
		case s.URL == "" && noBox != nil:
			found[i] = []Finding{bad(Error, name, "without a sandbox the model has none of its tools", "%v", noBox)}
		case s.URL != "" && !c.network:
			found[i] = []Finding{skip(name, "needs the network", "run doctor without --no-network")}
		default:
			folders := react.Folders{Workdir: c.agent.Turn.Workdir}
			s.Way, s.Box = way, folders.Grant(s.Box, folders.Workdir)
			wait.Go(c.loader.Secrets.Guarded(func() { found[i] = c.try(ctx, name, s) }))
		}
	}
	wait.Wait()
	return slices.Concat(found...)
}

// try starts one server and returns the findings about its tools.
func (c toolServersCheck) try(ctx context.Context, name string, s toolserver.Server) []Finding {
	session, err := toolserver.Start(ctx, s)
	if err != nil {
		hint := "check command of mcp; in the sandbox, a program outside /usr needs read = [\"ITS FOLDER\"], and a network needs network = true"
		if s.URL != "" {
			hint = "check url and token_file of mcp"
		}
		return []Finding{bad(Error, name, hint, "%v", err)}
	}
	defer session.Close()
	tools, notes := session.Tools(func(string) bool { return true })
	var titles []string
	for _, tool := range tools {
		titles = append(titles, tool.Title)
	}
	found := []Finding{good(name, "%s: %s", terminal.Count(len(titles), "tool"), strings.Join(titles, ", "))}
	if len(titles) == 0 {
		found = []Finding{bad(Warn, name, "", "it starts, but lists no callable tools")}
	}
	if notes != "" {
		found = append(found, bad(Warn, name, "the model does not get these", "%s", notes))
	}
	t := c.config.File.API.Tools
	for _, section := range []struct {
		name    string
		entries []string
	}{{"operator", t.Operator}, {"peer", t.Peer}, {"event", t.Event}, {"self", t.Self}} {
		if missing := config.ServerTools(section.entries).Missing(s.Name, session.Names()); len(missing) > 0 {
			found = append(found, bad(Warn, name, "fix [api.tools]", "%s in [api.tools] names tools that it does not list: %s", section.name, strings.Join(missing, ", ")))
		}
	}
	return found
}
