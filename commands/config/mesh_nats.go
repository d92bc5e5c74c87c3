package config

import (
	"crypto/tls"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/mail"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

const (
	serversHint = `write it like "tls://n1.example.com:4222,n2.example.com:4222", or "nats://127.0.0.1:4222" for a server on this machine`
	ownKeyHint  = "run `agentstateloop fleet key`, and set key_file to the file that it names"
	peerKeyHint = "`agentstateloop fleet key` prints it on the machine of that agent: U and 55 more characters"
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
		return nil, c.At(dotted("mesh.url"), serversHint, "%v", err)
	}
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.String()
	}
	if key := m.onlyOverHTTP(); key != "" {
		return nil, c.At(dotted("mesh."+key), "remove it; over NATS the agent has a key, in key_file", "it is for a mesh over HTTP, and url is %q", m.URL)
	}
	own := m.Secret()
	switch n := own.CountSet(); {
	case n == 0:
		return nil, c.Missing("mesh.key_file", ownKeyHint)
	case n > 1:
		return nil, c.At(dotted("mesh"), "keep one of them", "%d of key_file, key_env and key_command are set", n)
	}
	if err := c.checkPeerKeys(); err != nil {
		return nil, err
	}
	caFile := m.CAFile
	if caFile != "" {
		caFile = c.Resolve(caFile)
	}
	host, _ := os.Hostname() // without a name, the row in the registry says "host"
	return &natsmesh.Client{
		URL:     strings.Join(urls, ","),
		Handle:  c.File.Agent.Handle,
		Host:    fleet.HostToken(host),
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
			return c.At(at, "remove it: the agent knows its own key", "%s is this agent itself", handle)
		case strings.HasPrefix(key, "S"):
			return c.At(at, peerKeyHint, "it looks like a seed, which is secret; only the public key belongs here")
		case !fleet.ValidPublicKey(key):
			return c.At(at, peerKeyHint, "%q is not the public key of an agent", key)
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
