package config

import (
	"net/url"
	"slices"
	"time"

	"github.com/BurntSushi/toml"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

const keysHint = `write OUR-NAME = "NAME ON THAT MESH", such as message = "body"`

// wireMesh wires [mesh]. It returns nil if mesh.url is not set.
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
		return nil, c.At(dotted("mesh.url"), `write it like "http://127.0.0.1:8801"`, "%q is not an http or https URL", m.URL)
	}
	if u.Scheme == "http" && !Loopback(u.Hostname()) {
		return nil, c.At(dotted("mesh.url"), "use https; http is for a mesh on this machine", "%q would send the token unencrypted", m.URL)
	}
	for _, peer := range m.Peers {
		if !state.ValidHandle(peer) {
			return nil, c.At(dotted("mesh.peers"), handleHint, "%q is not a valid handle", peer)
		}
	}
	if m.Keymaster != "" && !state.ValidHandle(m.Keymaster) {
		return nil, c.At(dotted("mesh.keymaster"), handleHint, "%q is not a valid handle", m.Keymaster)
	}
	in, out := mesh.Keys(m.KeysIn), mesh.Keys(m.KeysOut)
	if key, err := in.CheckIn(); err != nil {
		return nil, c.At(toml.Key{"mesh", "keys_in", key}, keysHint, "%v", err)
	}
	if key, err := out.CheckOut(); err != nil {
		return nil, c.At(toml.Key{"mesh", "keys_out", key}, keysHint, "%v", err)
	}
	token := m.Secret()
	if token.CountSet() > 1 {
		return nil, c.At(dotted("mesh"), "keep one of them", "%d of token_file, token_env and token_command are set", token.CountSet())
	}
	client := &mesh.Client{
		URL:     m.URL,
		Handle:  c.File.Agent.Handle,
		Timeout: time.Duration(c.File.Timing.NetworkTimeout),
		Paths: mesh.Paths{
			Message: m.Paths.Message, Mailbox: m.Paths.Mailbox, Nudge: m.Paths.Nudge, Registry: m.Paths.Registry,
			Online: m.Paths.Online, Status: m.Paths.Status, Halt: m.Paths.Halt, Go: m.Paths.Go, Blob: m.Paths.Blob,
		},
		KeysIn: in, KeysOut: out,
	}
	if token.CountSet() == 1 {
		client.Token = l.Secret(c, token)
	}
	return &cycle.Mesh{Carrier: client, Handle: c.File.Agent.Handle, Peers: m.Peers, Open: c.File.Trust.Mesh == "open"}, nil
}

// Secret returns where the agent's token is found.
func (s meshSection) Secret() Source {
	return Source{File: s.TokenFile, Env: s.TokenEnv, Command: slices.Clone(s.TokenCommand)}
}
