package commands

import (
	"net/url"
	"slices"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// wireMesh makes the agent's side of localMesh; nil where there is no url.
func (p *program) wireMesh(c *config, timeout time.Duration) (*cycle.Mesh, error) {
	if err := c.oneOf("trust.mesh", c.file.Trust.Mesh, "token", "open"); err != nil {
		return nil, err
	}
	m := c.file.Mesh
	if m.URL == "" {
		return nil, nil
	}
	u, err := url.Parse(m.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, c.wrong("mesh.url", "%q is no address of a mesh: write it like \"http://127.0.0.1:8801\"", m.URL)
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, c.wrong("mesh.url", "%q would send the token in clear over a network: http is for this machine, use https", m.URL)
	}
	for _, peer := range m.Peers {
		if !state.ValidHandle(peer) {
			return nil, c.wrong("mesh.peers", "%q is no handle: write it like \"dorlange3120\"", peer)
		}
	}
	if m.Keymaster != "" && !state.ValidHandle(m.Keymaster) {
		return nil, c.wrong("mesh.keymaster", "%q is no handle: write it like \"dorlange3120\"", m.Keymaster)
	}
	token := secretSource{file: m.TokenFile, env: m.TokenEnv, command: slices.Clone(m.TokenCommand)}
	if token.ways() > 1 {
		return nil, c.wrong("mesh", "%d of token_file, token_env and token_command are set, and one is enough", token.ways())
	}
	client := &mesh.Client{
		URL:     m.URL,
		Handle:  c.file.Agent.Handle,
		Timeout: timeout,
		Paths: mesh.Paths{
			Message: m.Paths.Message, Mailbox: m.Paths.Mailbox, Nudge: m.Paths.Nudge, Registry: m.Paths.Registry,
			Online: m.Paths.Online, Status: m.Paths.Status, Halt: m.Paths.Halt, Go: m.Paths.Go,
		},
	}
	if token.ways() == 1 {
		client.Token = p.secret(c, token)
	}
	return &cycle.Mesh{Client: client, Peers: m.Peers, Open: c.file.Trust.Mesh == "open"}, nil
}
