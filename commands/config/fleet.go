package config

import (
	"os"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/boot"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state/store"
)

// fleetSection makes the agent live on several hosts. The table alone, without keys, is enough.
type fleetSection struct {
	Host  string   `toml:"host"`  // unique in the fleet; "": the host name
	Lease Duration `toml:"lease"` // how long the holder may act without an answer of the servers
	Auto  bool     `toml:"auto"`  // take the seat of a silent holder
}

// host returns the name of this host in the fleet, and in the registry of a mesh over NATS.
func (c *Config) host() string {
	host := c.File.Fleet.Host
	if host == "" && c.Has("fleet") {
		host = seat.HostIn(&store.Store{Dir: c.StateDir().Path, Agent: c.File.Agent.Handle})
	}
	if host == "" {
		host, _ = os.Hostname() // without a name it is "host"
	}
	return fleet.HostToken(host)
}

// wireFleet wires [fleet]. It returns nil without that table.
func (l *Loader) wireFleet(c *Config, mesh *cycle.Mesh, agent *store.Store) (*seat.Seat, error) {
	if !c.Has("fleet") && seat.InFleet(agent) {
		// Another host may act for it.
		return nil, c.Missing("fleet", "put the table back; `agentstateloop fleet leave` on the host that acts makes this agent live on one host again")
	}
	if !c.Has("fleet") {
		return nil, nil
	}
	if !c.File.Mesh.OverNATS() {
		return nil, c.At(splitKey("fleet"), serversHint, "needs a mesh over NATS: set url in [mesh]")
	}
	if host := c.File.Fleet.Host; host != "" && fleet.HostToken(host) != host {
		return nil, c.Wrong("fleet.host", "%q is not a host name: use at most 63 of a-z, 0-9 and -", host)
	}
	lease := time.Duration(c.File.Fleet.Lease)
	if lease < seat.MinLease {
		return nil, c.Wrong("fleet.lease", "%v is shorter than %v", lease, seat.MinLease)
	}
	if mesh == nil {
		return nil, nil // its own error is reported
	}
	client, ok := mesh.Carrier.(*natsmesh.Client)
	if !ok {
		return nil, nil
	}
	s := &seat.Seat{
		Handle: c.File.Agent.Handle, Host: c.host(), Program: l.Version, Lease: lease, Auto: c.File.Fleet.Auto,
		Store: agent, Engine: client.Conn(), Names: cycle.NamedFiles(agent),
		Clock: bootClock, Now: l.Now, NewID: store.NewID, Looked: client.Looked,
	}
	agent.Arbiter = s
	return s, nil
}

// bootClock is the clock of this machine.
func bootClock() (id string, now time.Duration, err error) {
	if id, err = boot.ID(); err != nil {
		return "", 0, err
	}
	now, err = boot.Now()
	return id, now, err
}
