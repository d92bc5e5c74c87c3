package config

import (
	"net/url"
	"slices"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// wireMesh wires [mesh]; nil where it has no url.
func (l *Loader) wireMesh(c *Config) (*cycle.Mesh, error) {
	if err := c.oneOf("trust.mesh", c.File.Trust.Mesh, "token", "open"); err != nil {
		return nil, err
	}
	m := c.File.Mesh
	if m.URL == "" {
		return nil, nil
	}
	u, err := url.Parse(m.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, c.Wrong("mesh.url", "%q is not the URL of a mesh: write it like \"http://127.0.0.1:8801\"", m.URL)
	}
	if u.Scheme == "http" && !Loopback(u.Hostname()) {
		return nil, c.Wrong("mesh.url", "%q would send the token in clear text: http is for this machine, use https", m.URL)
	}
	for _, peer := range m.Peers {
		if !state.ValidHandle(peer) {
			return nil, c.Wrong("mesh.peers", "%q is not a valid handle: write it like \"dorlange3120\"", peer)
		}
	}
	if m.Keymaster != "" && !state.ValidHandle(m.Keymaster) {
		return nil, c.Wrong("mesh.keymaster", "%q is not a valid handle: write it like \"dorlange3120\"", m.Keymaster)
	}
	token := m.Secret()
	if token.Ways() > 1 {
		return nil, c.Wrong("mesh", "%d of token_file, token_env and token_command are set: keep one", token.Ways())
	}
	client := &mesh.Client{
		URL:     m.URL,
		Handle:  c.File.Agent.Handle,
		Timeout: time.Duration(c.File.Timing.NetworkTimeout),
		Paths: mesh.Paths{
			Message: m.Paths.Message, Mailbox: m.Paths.Mailbox, Nudge: m.Paths.Nudge, Registry: m.Paths.Registry,
			Online: m.Paths.Online, Status: m.Paths.Status, Halt: m.Paths.Halt, Go: m.Paths.Go,
		},
	}
	if token.Ways() == 1 {
		client.Token = l.Secret(c, token)
	}
	return &cycle.Mesh{Client: client, Peers: m.Peers, Open: c.File.Trust.Mesh == "open"}, nil
}

// Secret says where the agent's token is.
func (s meshSection) Secret() Source {
	return Source{File: s.TokenFile, Env: s.TokenEnv, Command: slices.Clone(s.TokenCommand)}
}
