package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/lazy"
	"agentstateloop/turn/react"
	"agentstateloop/turn/toolserver"
)

// Limits on the tables [tools.NAME] with mcp.
const (
	maxServers       = 16
	maxServerTimeout = time.Hour
	maxServerName    = 32 // bytes
)

// serverName matches the names of tool servers. The model sees a tool as SERVER__TOOL, so a server
// name must not contain "__".
var serverName = lazy.NewRegexp(`^[a-z][a-z0-9_]*$`)

// isMCPServer reports whether a tool of the user is an MCP server.
func (c *Config) isMCPServer(name string) bool { return c.Has("tools." + name + ".mcp") }

// wireToolServers returns the MCP servers, sorted by name.
func (l *Loader) wireToolServers(c *Config) ([]toolserver.Server, error) {
	var all []toolserver.Server
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		if !c.isMCPServer(name) {
			continue
		}
		server, err := l.wireToolServer(c, name, c.File.Tools[name])
		if err != nil {
			return nil, err
		}
		all = append(all, server)
	}
	if len(all) > maxServers {
		return nil, c.Wrong("tools", "%d tool servers are set, but the limit is %d", len(all), maxServers)
	}
	return all, c.checkServerTools(all)
}

// wireToolServer returns the MCP server with a name.
func (l *Loader) wireToolServer(c *Config, name string, t toolSection) (toolserver.Server, error) {
	key := "tools." + name
	s := toolserver.Server{Name: name, Timeout: ToolTimeout, Version: l.Version, Secrets: l.Secrets}
	if t.Timeout > 0 {
		s.Timeout = time.Duration(t.Timeout)
	}
	switch {
	case !serverName.Get().MatchString(name), len(name) > maxServerName, strings.Contains(name, "__"), strings.HasSuffix(name, "_"):
		return s, c.At(splitKey(key), "use a-z, 0-9 and single _, at most 32 characters", "%q is not a valid name for a tool server", name)
	case react.BuiltIn(name):
		return s, c.Wrong(key, "%q is a built-in tool: choose another name", name)
	case s.Timeout < time.Second || s.Timeout > maxServerTimeout:
		return s, c.Wrong(key+".timeout", "must be between 1s and %v", maxServerTimeout)
	}
	for _, other := range []string{"command", "description", "schema", "after_execution", "deadline", "report_from"} {
		if c.Has(key + "." + other) {
			return s, c.At(splitKey(key+"."+other), "remove it, or remove mcp", "can only be used without mcp: an MCP server describes its own tools")
		}
	}
	if err := c.checkPlace(key+".mcp", t.MCP); err != nil {
		return s, err
	}
	if t.MCP.URL != "" {
		return s, l.wireRemoteServer(c, key+".mcp", t.MCP, &s)
	}
	return s, l.wireLocalServer(c, key+".mcp", t.MCP, &s)
}

// checkPlace checks that a server has either a command or a url, and that its other keys fit that
// kind.
func (c *Config) checkPlace(key string, m mcpSection) error {
	local, remote := c.Has(key+".command"), c.Has(key+".url")
	switch {
	case local && remote:
		return c.At(splitKey(key+".url"), "use two servers", "command and url cannot both be set")
	case !local && !remote, local && (len(m.Command) == 0 || m.Command[0] == ""), remote && m.URL == "":
		return c.Missing(key+".command", `set command = ["mcp-server-filesystem", "."], or url = "https://…"`)
	}
	others, kind := []string{"network", "read", "write", "env", "env_files"}, "command"
	if local {
		others, kind = []string{"token_file", "token_env", "token_command", "insecure"}, "url"
	}
	for _, other := range others {
		if c.Has(key + "." + other) {
			return c.At(splitKey(key+"."+other), "remove it", "can only be used with %s", kind)
		}
	}
	return nil
}

// wireLocalServer fills in the fields of a local server: the folders granted to its sandbox besides
// those of the turn, and a small environment.
func (l *Loader) wireLocalServer(c *Config, key string, m mcpSection, s *toolserver.Server) error {
	self, err := l.Executable()
	if err != nil {
		return err
	}
	s.Command = slices.Clone(m.Command)
	s.Command[0] = c.ResolveProgram(m.Command[0])
	s.Box = c.ExecBox()
	s.Box.Self, s.Box.Network = self, m.Network
	for _, path := range m.Read {
		if err := c.checkGranted(key+".read", c.Resolve(path)); err != nil {
			return err
		}
		s.Box.Read = append(s.Box.Read, c.Resolve(path))
	}
	for _, path := range m.Write {
		if err := c.checkGranted(key+".write", c.Resolve(path)); err != nil {
			return err
		}
		if contains(c.Resolve(path), self) {
			return c.At(splitKey(key+".write"), "use a folder with only the files the server works on", "%s contains %s, which every poll runs", c.Resolve(path), self)
		}
		if program := c.serverProgramIn(c.Resolve(path)); program != "" {
			return c.At(splitKey(key+".write"), "use a folder with only the files the server works on", "%s contains the program %s", c.Resolve(path), program)
		}
		s.Box.Write = append(s.Box.Write, c.Resolve(path))
	}
	return l.serverEnv(c, key, m, s)
}

// serverEnv fills in the environment of a local server. The server is foreign code, and [turn.env]
// may contain secrets of the agent, so it gets only PATH from there.
func (l *Loader) serverEnv(c *Config, key string, m mcpSection, s *toolserver.Server) error {
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
	if path := c.File.Turn.Env["PATH"]; path != "" {
		env["PATH"] = path
	}
	for name, value := range m.Env {
		if err := c.checkVariable(key+".env", name, value); err != nil {
			return err
		}
		if secretName.Get().MatchString(name) {
			l.Secrets.Learn(c.Path+" "+key+" "+name, value)
		}
		env[name] = value
	}
	s.EnvFiles = map[string]toolserver.Secret{}
	for name, file := range m.EnvFiles {
		_, twice := m.Env[name]
		switch {
		case !validVariable(name):
			return c.Wrong(key+".env_files", "%q is not a valid environment variable name", name)
		case twice:
			return c.At(splitKey(key+".env_files"), "keep one of them", "%s is set both in env and in env_files", name)
		case file == "":
			return c.Wrong(key+".env_files", "%s names no file", name)
		}
		s.EnvFiles[name] = l.Secret(c, Source{File: file})
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		s.Env = append(s.Env, name+"="+env[name])
	}
	return nil
}

// checkVariable checks an environment variable of a setting.
func (c *Config) checkVariable(key, name, value string) error {
	switch {
	case !validVariable(name):
		return c.Wrong(key, "%q is not a valid environment variable name", name)
	case strings.Contains(value, "\x00"):
		return c.Wrong(key, "the value of %s contains a NUL byte", name)
	}
	return c.checkInBackup(key+"."+name, value)
}

func validVariable(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }

// wireRemoteServer fills in the fields of a server with an address.
func (l *Loader) wireRemoteServer(c *Config, key string, m mcpSection, s *toolserver.Server) error {
	s.URL = m.URL
	token := m.Token()
	u, err := url.Parse(m.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return c.At(splitKey(key+".url"), `use a URL such as "https://mcp.example.com/mcp"`, "%q is not an http or https URL", m.URL)
	case u.Port() != "" && !isPort(u.Port()):
		return c.At(splitKey(key+".url"), "use a port from 1 to 65535", "%q has an invalid port, %s", m.URL, u.Port())
	case u.User != nil:
		return c.At(splitKey(key+".url"), "put the token in a file, and set token_file to that file", "must not contain a password")
	case u.Scheme == "http" && !Loopback(u.Hostname()) && (!m.Insecure || token.CountSet() > 0):
		return c.At(splitKey(key+".url"), "use https; insecure = true allows http within your own network, without a token", "requests to %q would be unencrypted", m.URL)
	case token.CountSet() > 1:
		return c.At(splitKey(key), "keep one of them", "%d of token_file, token_env and token_command are set", token.CountSet())
	}
	if token.CountSet() == 1 {
		s.Token = l.Secret(c, token)
	}
	return nil
}

// Token returns the source of a tool server's token.
func (m mcpSection) Token() Source {
	return Source{File: m.TokenFile, Env: m.TokenEnv, Command: slices.Clone(m.TokenCommand)}
}

// checkServerTools checks the entries of [api.tools] about servers. A misspelled permission must
// not pass for a missing one.
func (c *Config) checkServerTools(servers []toolserver.Server) error {
	t := c.File.API.Tools
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	for section, tools := range map[string][]string{"operator": t.Operator, "peer": t.Peer, "event": t.Event, "self": t.Self} {
		key := "api.tools." + section
		for _, tool := range tools {
			server, of, slash := strings.Cut(tool, "/")
			switch {
			case !slash && slices.Contains(names, tool):
				return c.At(splitKey(key), "use "+tool+"/* for all of its tools, or "+tool+"/TOOL for one; `agentstateloop doctor --all` lists them", "%q is a tool server", tool)
			case slash && of == "":
				return c.At(splitKey(key), "use "+server+"/* for all of its tools", "%q names no tool", tool)
			case slash && !slices.Contains(names, server):
				return c.At(splitKey(key), "a tool server is a table [tools.NAME] with mcp", "%q: unknown tool server %s", tool, server)
			}
		}
	}
	for _, s := range servers {
		for name := range c.File.Tools {
			if strings.HasPrefix(name, s.Name+"__") {
				return c.At(splitKey("tools."+name), "rename one of them", "could also be the name of a tool of the server %s", s.Name)
			}
		}
	}
	return nil
}

// Patterns are the entries of [api.tools] that name tools of servers: NAME/tool, or NAME/* for all
// tools of a server.
type Patterns []string

// NamesServer reports whether an entry of [api.tools] names a tool of a server.
func NamesServer(entry string) bool { return strings.Contains(entry, "/") }

// ServerTools returns the entries of [api.tools] that name tools of servers.
func ServerTools(entries []string) Patterns {
	return slices.DeleteFunc(slices.Clone(entries), func(e string) bool { return !NamesServer(e) })
}

// AllTools returns patterns for all tools of servers.
func AllTools(servers []toolserver.Server) (p Patterns) {
	for _, s := range servers {
		p = append(p, s.Name+"/*")
	}
	return p
}

// Any reports whether the patterns name any tool of a server.
func (p Patterns) Any(server string) bool {
	return slices.ContainsFunc(p, func(e string) bool { return strings.HasPrefix(e, server+"/") })
}

// Allow reports whether the patterns name a tool of a server.
func (p Patterns) Allow(server, tool string) bool {
	return slices.Contains(p, server+"/*") || slices.Contains(p, server+"/"+tool)
}

// Missing returns the tools of a server that the patterns name but the server does not list.
func (p Patterns) Missing(server string, listed []string) (missing []string) {
	for _, e := range p {
		name, tool, _ := strings.Cut(e, "/")
		if name == server && tool != "*" && !slices.Contains(listed, tool) {
			missing = append(missing, tool)
		}
	}
	return missing
}

// serverSecrets returns the files of tool servers that contain or print secrets.
func (c *Config) serverSecrets() (files []string) {
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		m := c.File.Tools[name].MCP
		files = append(append(files, m.TokenFile), slices.Sorted(maps.Values(m.EnvFiles))...)
		if len(m.TokenCommand) > 0 && strings.Contains(m.TokenCommand[0], "/") {
			files = append(files, m.TokenCommand[0])
		}
	}
	return files
}

// serverProgramIn returns the program of a tool server that is dir or inside dir, or "". Write
// access to it gives access to all that the server was granted.
func (c *Config) serverProgramIn(dir string) string {
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		if command := c.File.Tools[name].MCP.Command; len(command) > 0 && strings.Contains(command[0], "/") && contains(dir, c.Resolve(command[0])) {
			return c.Resolve(command[0])
		}
	}
	return ""
}
