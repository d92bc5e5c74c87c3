package fleet

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Servers returns the servers in the url of a mesh, which are separated by commas. The scheme
// of the first server is the default for the others. The default port is 4222.
func Servers(urls string) ([]*url.URL, error) {
	var servers []*url.URL
	for text := range strings.SplitSeq(urls, ",") {
		text = strings.TrimSpace(text)
		if len(servers) > 0 && !strings.Contains(text, "://") {
			text = servers[0].Scheme + "://" + text
		}
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
			return nil, fmt.Errorf("%q is not a server", text)
		case u.User != nil:
			return nil, errors.New("a name or password in it is not used: the agent has a key")
		case u.Scheme != "tls" && u.Scheme != "nats":
			return nil, fmt.Errorf("%q begins with neither tls:// nor nats://", text)
		case len(servers) > 0 && u.Scheme != servers[0].Scheme:
			return nil, fmt.Errorf("it names servers with %s and with %s", servers[0].Scheme, u.Scheme)
		case u.Scheme == "nats" && !loopback(u.Hostname()):
			return nil, fmt.Errorf("%q would send messages unencrypted: use tls; nats is for a server on this machine", text)
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), "4222")
		}
		servers = append(servers, u)
	}
	return servers, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
