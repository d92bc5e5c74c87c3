package config

import (
	"cmp"
	"crypto/tls"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/mail"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"

	"github.com/BurntSushi/toml"
)

const (
	keysHint = `use OUR_KEY = "THEIR_KEY", such as message = "body"`
	urlHint  = `use a URL such as "http://127.0.0.1:8801", or "tls://n1.example.com:4222" for a mesh over NATS`
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
			return nil, c.At(splitKey("mesh.peers"), handleHint, "%q is not a valid handle", peer)
		}
	}
	if m.Keymaster != "" && !state.ValidHandle(m.Keymaster) {
		return nil, c.At(splitKey("mesh.keymaster"), handleHint, "%q is not a valid handle", m.Keymaster)
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
		return nil, c.At(splitKey("mesh.url"), urlHint, "%q is not a mesh URL", m.URL)
	}
	if u.Scheme == "http" && !Loopback(u.Hostname()) {
		return nil, c.At(splitKey("mesh.url"), "use https; http is only for a mesh on this machine", "%q would send the token unencrypted", m.URL)
	}
	if key := m.onlyOverNATS(); key != "" {
		return nil, c.At(splitKey("mesh."+key), "remove it; over HTTP the agent authenticates with token_file", "can only be used with a mesh over NATS, but url is %q", m.URL)
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
		return nil, c.At(splitKey("mesh"), "keep one of them", "%d of token_file, token_env and token_command are set", token.CountSet())
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

const (
	serversHint = `use URLs such as "tls://n1.example.com:4222,n2.example.com:4222", or "nats://127.0.0.1:4222" for a server on this machine`
	ownKeyHint  = "run `agentstateloop fleet key`, and set key_file to the file that it writes"
	peerKeyHint = "run `agentstateloop fleet key` on that agent's machine to print its public key, U and 55 characters"
)

// OverNATS reports whether the mesh runs over NATS.
func (m meshSection) OverNATS() bool { return OverNATS(m.URL) }

// OverNATS reports whether url is that of a mesh over NATS.
func OverNATS(url string) bool {
	return strings.HasPrefix(url, "nats://") || strings.HasPrefix(url, "tls://")
}

// wireNATSMesh returns the client of a mesh over NATS.
func (l *Loader) wireNATSMesh(c *Config) (cycle.Carrier, error) {
	m := c.File.Mesh
	servers, err := fleet.Servers(m.URL)
	if err != nil {
		return nil, c.At(splitKey("mesh.url"), serversHint, "%v", err)
	}
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.String()
	}
	if key := m.onlyOverHTTP(); key != "" {
		return nil, c.At(splitKey("mesh."+key), "remove it; over NATS the agent authenticates with key_file", "can only be used with a mesh over HTTP, but url is %q", m.URL)
	}
	own := m.Secret()
	switch n := own.CountSet(); {
	case n == 0:
		return nil, c.Missing("mesh.key_file", ownKeyHint)
	case n > 1:
		return nil, c.At(splitKey("mesh"), "keep one of them", "%d of key_file, key_env and key_command are set", n)
	}
	if err := c.checkPeerKeys(); err != nil {
		return nil, err
	}
	caFile := m.CAFile
	if caFile != "" {
		caFile = c.Resolve(caFile)
	}
	return &natsmesh.Client{
		URL:     strings.Join(urls, ","),
		Handle:  c.File.Agent.Handle,
		Host:    c.host(),
		Version: l.Version,
		Seed:    l.Secret(c, own),
		Keys:    m.Keys,
		TLS:     func(host string) (*tls.Config, error) { return mail.TLSConfig(host, caFile, c.roots()) },
		Timeout: time.Duration(c.File.Timing.NetworkTimeout),
		Secrets: l.Secrets,
		Now:     l.Now,
	}, nil
}

// checkPeerKeys checks [mesh.keys].
func (c *Config) checkPeerKeys() error {
	for _, handle := range slices.Sorted(maps.Keys(c.File.Mesh.Keys)) {
		at := toml.Key{"mesh", "keys", handle}
		switch key := c.File.Mesh.Keys[handle]; {
		case !state.ValidHandle(handle):
			return c.At(at, handleHint, "%q is not a valid handle", handle)
		case handle == c.File.Agent.Handle:
			return c.At(at, "remove it: the agent knows its own key", "%s is this agent", handle)
		case strings.HasPrefix(key, "S"):
			return c.At(at, peerKeyHint, "looks like a seed, which is secret: use the public key")
		case !fleet.ValidPublicKey(key):
			return c.At(at, peerKeyHint, "%q is not a public key", key)
		}
	}
	return nil
}

// onlyOverHTTP returns a key of [mesh] that is set but has no meaning over NATS, or "".
func (m meshSection) onlyOverHTTP() string {
	switch {
	case m.TokenFile != "":
		return "token_file"
	case m.TokenEnv != "":
		return "token_env"
	case len(m.TokenCommand) > 0:
		return "token_command"
	case m.Paths != (pathsSection{}):
		return "paths"
	case m.Receipt != "":
		return "receipt"
	case len(m.KeysIn) > 0:
		return "keys_in"
	case len(m.KeysOut) > 0:
		return "keys_out"
	}
	return ""
}

// onlyOverNATS returns a key of [mesh] that is set but has no meaning over HTTP, or "".
func (m meshSection) onlyOverNATS() string {
	switch {
	case m.KeyFile != "":
		return "key_file"
	case m.KeyEnv != "":
		return "key_env"
	case len(m.KeyCommand) > 0:
		return "key_command"
	case m.CAFile != "":
		return "ca_file"
	case len(m.Keys) > 0:
		return "keys"
	}
	return ""
}
