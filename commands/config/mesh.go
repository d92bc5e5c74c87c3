package config

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/BurntSushi/toml"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

const (
	keysHint = `write OUR-NAME = "NAME ON THAT MESH", such as message = "body"`
	urlHint  = `write it like "http://127.0.0.1:8801", or like "tls://n1.example.com:4222" for a mesh over NATS`
)

// Mesh wires [mesh]. It returns nil if mesh.url is not set.
func (l *Loader) Mesh(c *Config) (*cycle.Mesh, error) {
	if err := c.oneOf("trust.mesh", c.File.Trust.Mesh, "token", "open"); err != nil {
		return nil, err
	}
	m := c.File.Mesh
	if err := c.oneOf("mesh.receipt", cmp.Or(m.Receipt, "id"), "id", "status"); err != nil {
		return nil, err
	}
	if m.URL == "" {
		return nil, nil
	}
	for _, peer := range m.Peers {
		if !state.ValidHandle(peer) {
			return nil, c.At(dotted("mesh.peers"), handleHint, "%q is not a valid handle", peer)
		}
	}
	if m.Keymaster != "" && !state.ValidHandle(m.Keymaster) {
		return nil, c.At(dotted("mesh.keymaster"), handleHint, "%q is not a valid handle", m.Keymaster)
	}
	wired := &cycle.Mesh{Handle: c.File.Agent.Handle, Peers: m.Peers, Open: c.File.Trust.Mesh == "open", Paces: m.OverNATS()}
	wire := l.wireHTTPMesh
	if m.OverNATS() {
		wire = l.wireNATSMesh
	}
	var err error
	if wired.Carrier, err = wire(c); err != nil {
		return nil, err
	}
	return wired, nil
}

// wireHTTPMesh returns the client of a mesh over HTTP.
func (l *Loader) wireHTTPMesh(c *Config) (cycle.Carrier, error) {
	m := c.File.Mesh
	u, err := url.Parse(m.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, c.At(dotted("mesh.url"), urlHint, "%q is not a URL of a mesh", m.URL)
	}
	if u.Scheme == "http" && !Loopback(u.Hostname()) {
		return nil, c.At(dotted("mesh.url"), "use https; http is for a mesh on this machine", "%q would send the token unencrypted", m.URL)
	}
	if key := m.onlyOverNATS(); key != "" {
		return nil, c.At(dotted("mesh."+key), "remove it; a mesh over HTTP knows its agents by token_file", "it is for a mesh over NATS, and url is %q", m.URL)
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
		KeysIn: in, KeysOut: out, StatusIsReceipt: m.Receipt == "status",
	}
	if token.CountSet() == 1 {
		client.Token = l.Secret(c, token)
	}
	return client, nil
}

// Secret returns the source of the secret that authenticates the agent to the mesh: its token over
// HTTP, its key over NATS.
func (m meshSection) Secret() Source {
	if m.OverNATS() {
		return Source{File: m.KeyFile, Env: m.KeyEnv, Command: slices.Clone(m.KeyCommand)}
	}
	return Source{File: m.TokenFile, Env: m.TokenEnv, Command: slices.Clone(m.TokenCommand)}
}
