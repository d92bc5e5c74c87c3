package fleet

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/state"
)

// Plan holds the administrator's decisions about the servers.
type Plan struct {
	Servers []string          // host or host:port of each; empty: one server on this machine
	Users   map[string]string // the public keys of the agents, U…, by handle
	Admin   string            // the public key of the administrator; "" leaves a gap to fill in
}

const (
	defaultPort = 4222
	routePort   = 6222 // for connections between servers

	// loopbackRouteOffset is the distance between the port for clients and the port for routes
	// when several servers run on one machine.
	loopbackRouteOffset = 2000
)

// plannedServer is one server of a plan.
type plannedServer struct {
	name, host  string
	port, route int
}

// URL returns the url of the mesh for agent.toml.
func (p Plan) URL() (string, error) {
	servers, local, err := p.servers()
	if err != nil {
		return "", err
	}
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.client())
	}
	if local {
		return "nats://" + strings.Join(hosts, ","), nil
	}
	return "tls://" + strings.Join(hosts, ","), nil
}

func (s plannedServer) client() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// servers returns the servers, and whether all of them run on this machine.
func (p Plan) servers() (servers []plannedServer, local bool, err error) {
	addresses := p.Servers
	if len(addresses) == 0 {
		addresses = []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(defaultPort))}
	}
	locals, seen := 0, map[string]bool{}
	for i, text := range addresses {
		s, err := parseServer(text)
		if err != nil {
			return nil, false, err
		}
		if seen[s.client()] {
			return nil, false, fmt.Errorf("%s is listed twice", s.client())
		}
		seen[s.client()] = true
		s.name = s.host
		if thisMachine(s.host) {
			locals++
			s.name, s.route = "n"+strconv.Itoa(i+1), s.port+loopbackRouteOffset
		}
		servers = append(servers, s)
	}
	if locals > 0 && locals < len(servers) {
		return nil, false, errors.New("loopback addresses cannot be mixed with other servers: use the names by which agents reach the servers")
	}
	if a, b, shared := sharedPort(servers); locals > 0 && shared {
		return nil, false, fmt.Errorf("%s and %s would use the same port: leave %d between a port for agents and the port for the other servers", a, b, loopbackRouteOffset)
	}
	if locals == 0 && !onePort(servers) {
		return nil, false, errors.New("all servers must have the same port, because they share one configuration")
	}
	return servers, locals > 0, nil
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// sharedPort returns two servers that would listen on the same port of this machine.
func sharedPort(servers []plannedServer) (a, b string, shared bool) {
	for i, s := range servers {
		for _, other := range servers[i+1:] {
			if s.port == other.port || s.port == other.route || s.route == other.port {
				return s.client(), other.client(), true
			}
		}
	}
	return "", "", false
}

func onePort(servers []plannedServer) bool {
	return !slices.ContainsFunc(servers, func(s plannedServer) bool { return s.port != servers[0].port })
}

func parseServer(text string) (plannedServer, error) {
	s := plannedServer{host: text, port: defaultPort, route: routePort}
	if host, port, err := net.SplitHostPort(text); err == nil && !strings.Contains(text, "/") {
		s.host = host
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return plannedServer{}, fmt.Errorf("%q: %q is not a port", text, port)
		}
		s.port = int(n)
	}
	if net.ParseIP(s.host) == nil && (s.host == "" || strings.Trim(s.host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") != "") {
		return plannedServer{}, fmt.Errorf("%q is not a server name: use HOST or HOST:PORT, without tls://", text)
	}
	if s.port == s.route {
		return plannedServer{}, fmt.Errorf("%q: port %d is reserved for connections between the servers", text, s.route)
	}
	if thisMachine(s.host) && s.port+loopbackRouteOffset > 1<<16-1 {
		return plannedServer{}, fmt.Errorf("%q: choose a port below %d", text, 1<<16-loopbackRouteOffset)
	}
	return s, nil
}

// check returns an error for a plan without agents, an invalid name or key, or a key with two
// owners.
func (p Plan) check() error {
	if len(p.Users) == 0 {
		return errors.New("at least one agent is required")
	}
	owner := map[string]string{}
	if p.Admin != "" {
		if !ValidPublicKey(p.Admin) {
			return fmt.Errorf("the administrator's key is not the public key of a user, U and 55 characters%s", seedWarning(p.Admin))
		}
		owner[p.Admin] = "the administrator"
	}
	for _, handle := range slices.Sorted(maps.Keys(p.Users)) {
		key := p.Users[handle]
		switch {
		case !state.ValidHandle(handle):
			return fmt.Errorf("%q is not a valid handle: %s", handle, state.HandleRule)
		case !ValidPublicKey(key):
			return fmt.Errorf("the key of %s is not the public key of a user, U and 55 characters%s", handle, seedWarning(key))
		case owner[key] != "":
			return fmt.Errorf("%s and %s have the same key: each needs its own", owner[key], handle)
		}
		owner[key] = handle
	}
	return nil
}

func seedWarning(key string) string {
	if strings.HasPrefix(key, "SU") {
		return "; a key that begins with SU is a secret seed: replace it now"
	}
	return ""
}

// Config returns the nats-server configuration for the plan. It is the same for each server.
func (p Plan) Config() (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	servers, local, err := p.servers()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	p.writeHead(&b, servers, local)
	listen := "0.0.0.0"
	if local {
		listen = servers[0].host
	}
	fmt.Fprintf(&b, "listen: %q\n", net.JoinHostPort(listen, strconv.Itoa(servers[0].port)))
	if !local || len(servers) > 1 {
		b.WriteString("server_name: $SERVER   # from the environment; do not change it later\n")
	}
	if !local {
		b.WriteString(tlsBlock)
	}
	writeStore(&b, local && len(servers) > 1)
	if len(servers) > 1 {
		writeCluster(&b, servers, listen, local)
	}
	p.writeAccounts(&b)
	return b.String(), nil
}

const tlsBlock = `
# Agents connect only with TLS. Each server's certificate must be valid for its name above.
# Agents verify it, with [mesh] ca_file if you use your own CA.
tls {
  cert_file: "server.pem"   # FILL IN: the server's own certificate
  key_file:  "server.key"   # FILL IN: the server's own key
}
`

func (p Plan) writeHead(b *strings.Builder, servers []plannedServer, local bool) {
	url, _ := p.URL() // its servers are already checked
	b.WriteString("# The configuration of nats-server, 2.14 or later, for agents that share a mesh.\n")
	if len(servers) == 1 && local {
		b.WriteString("# One server on this machine: for testing, and for agents on this machine only.\n")
	}
	b.WriteString("# Start it:\n#\n")
	for _, s := range servers {
		switch {
		case !local:
			fmt.Fprintf(b, "#   SERVER=%s nats-server -c fleet.conf\n", s.name)
		case len(servers) == 1:
			b.WriteString("#   nats-server -c fleet.conf\n")
		default:
			fmt.Fprintf(b, "#   SERVER=%s nats-server -c fleet.conf -a %s -p %d --cluster nats://%s -sd nats/%s\n",
				s.name, s.host, s.port, net.JoinHostPort(s.host, strconv.Itoa(s.route)), s.name)
		}
	}
	if len(servers) > 1 && !local {
		b.WriteString("#\n# All servers use this same file. Start each with its own name.\n")
	}
	if len(servers) == 2 {
		b.WriteString("# A cluster of two stops when either server stops: use one server, or three.\n")
	}
	fmt.Fprintf(b, `#
# Then create the streams and mailboxes, from any machine:
#
#   agentstateloop fleet create --admin-key admin.nk --url %s %s
#
# In agent.toml of each agent:
#
#   [mesh]
#   url = %q
#
# After a change: %s

`, url, strings.Join(slices.Sorted(maps.Keys(p.Users)), " "), url, afterChange(servers, local))
}

// afterChange returns how to make servers load a new configuration.
func afterChange(servers []plannedServer, local bool) string {
	switch {
	case local && len(servers) > 1:
		return "nats-server --signal 'reload=*', for all servers on this machine."
	case local:
		return "nats-server --signal reload"
	}
	return "nats-server --signal reload, on each server."
}

// writeStore writes the storage settings. Without sync_interval, a server reports messages as
// stored up to two minutes before they are on its disk. Several servers on one machine share the
// file, so each gets its folder as an argument: nats-server refuses a second setting for it.
func writeStore(b *strings.Builder, byArgument bool) {
	folder := `store_dir: "nats"          # CHANGE: a folder that survives a reboot`
	if byArgument {
		folder = "# CHANGE -sd in the lines above: each server has its own folder, which survives a reboot"
	}
	fmt.Fprintf(b, `
jetstream {
  %s
  max_file_store: %dGB
  sync_interval: always      # acknowledged messages are on disk; do not change
}

# The streams that fleet create makes, and their limits:
#
`, folder, StoreSize()>>30)
	for _, a := range Assets(1) {
		fmt.Fprintf(b, "#   %-12s %-18s %s\n", a.Stream.Name, a.Stream.Subjects[0], a.Stream.limits())
	}
}

// limits describes the limits of a stream.
func (s Stream) limits() string {
	text := byteSize(s.MaxBytes) + ", " + byteSize(int64(s.MaxSize)) + " per message"
	if s.PerSubject > 0 {
		text += ", " + strconv.Itoa(s.PerSubject) + " per subject"
	}
	if s.MaxAge > 0 {
		text += ", " + strconv.Itoa(int(s.MaxAge/day)) + " days"
	}
	return text
}

func byteSize(n int64) string {
	switch {
	case n >= 1<<30:
		return strconv.FormatInt(n>>30, 10) + " GiB"
	case n >= 1<<20:
		return strconv.FormatInt(n>>20, 10) + " MiB"
	}
	return strconv.FormatInt(n>>10, 10) + " KiB"
}

func writeCluster(b *strings.Builder, servers []plannedServer, listen string, local bool) {
	fmt.Fprintf(b, "\ncluster {\n  name: asl\n  listen: %q\n  no_advertise: true\n", net.JoinHostPort(listen, strconv.Itoa(servers[0].route)))
	if !local {
		b.WriteString(`
  # Servers identify each other by certificate. Anyone with a certificate from this CA can
  # join the cluster and read everything: use the CA for nothing else.
  tls {
    cert_file: "server.pem"   # FILL IN: valid for clients and servers
    key_file:  "server.key"   # FILL IN
    ca_file:   "ca.pem"       # FILL IN: the CA
  }
`)
	}
	b.WriteString("  routes: [\n")
	for _, s := range servers {
		fmt.Fprintf(b, "    \"nats-route://%s\"\n", net.JoinHostPort(s.host, strconv.Itoa(s.route)))
	}
	b.WriteString("  ]\n}\n")
}

func (p Plan) writeAccounts(b *strings.Builder) {
	b.WriteString(`
# The streams and their administrator have their own account. The server publishes its
# answer to any reply subject that a request names, and acts on its own messages: in this
# account, an agent could make it delete a stream.
accounts {
  ASL {
    jetstream: enabled
    users: [
`)
	if p.Admin != "" {
		fmt.Fprintf(b, "      # the administrator, who creates the streams and mailboxes\n      { nkey: %s }\n", p.Admin)
	} else {
		b.WriteString("      # FILL IN the administrator's key, from agentstateloop fleet key --file admin.nk:\n      # { nkey: U... }\n")
	}
	b.WriteString("    ]\n    exports: [\n")
	for _, s := range services() {
		many := ""
		if s.many {
			many = ", response_type: stream"
		}
		fmt.Fprintf(b, "      { service: %q, accounts: [AGENTS]%s }\n", s.subject, many)
	}
	b.WriteString(`    ]
  }
  # Agents reach only these imports. Each may use only its subjects below.
  AGENTS {
    imports: [
`)
	for _, s := range services() {
		fmt.Fprintf(b, "      { service: { account: ASL, subject: %q } }\n", s.subject)
	}
	b.WriteString("    ]\n    users: [\n")
	for _, handle := range slices.Sorted(maps.Keys(p.Users)) {
		rights := Rights(handle)
		fmt.Fprintf(b, "      # %s\n      { nkey: %s, permissions: {\n", handle, p.Users[handle])
		writeSubjects(b, "publish", rights.Publish)
		writeSubjects(b, "subscribe", rights.Subscribe)
		b.WriteString("      } }\n")
	}
	b.WriteString("    ]\n  }\n}\n")
}

func writeSubjects(b *strings.Builder, verb string, subjects []string) {
	fmt.Fprintf(b, "        %s: { allow: [\n", verb)
	for _, s := range subjects {
		fmt.Fprintf(b, "          %q\n", s)
	}
	b.WriteString("        ] }\n")
}
