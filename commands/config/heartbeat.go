package config

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"agentstateloop/cycle/heartbeat"
)

// heartbeatHint explains the format of the heartbeat address.
const heartbeatHint = `write it like "https://hc-ping.com/…", or name a file with it in heartbeat_file`

// wireHeartbeat wires the keys heartbeat… of [schedule]. It returns nil if all are unset. Its
// errors never contain the address.
func (l *Loader) wireHeartbeat(c *Config) (*heartbeat.Monitor, error) {
	s := c.File.Schedule
	source := s.HeartbeatSource()
	n := source.CountSet()
	if s.Heartbeat != "" {
		n++
	}
	switch {
	case n > 1:
		return nil, c.At(dotted("schedule"), "keep one of them", "%d of heartbeat, heartbeat_file, heartbeat_env and heartbeat_command are set", n)
	case n == 0 && s.HeartbeatInsecure:
		return nil, c.At(dotted("schedule.heartbeat_insecure"), heartbeatHint, "is set, and no heartbeat")
	case n == 0:
		return nil, nil
	}
	m := &heartbeat.Monitor{Insecure: s.HeartbeatInsecure, Roots: c.roots()}
	if s.Heartbeat == "" {
		read := l.Secret(c, source)
		m.Address = func(ctx context.Context) (string, error) {
			address, err := read(ctx)
			l.learnHeartbeat(address)
			return address, err
		}
		return m, nil
	}
	l.learnHeartbeat(s.Heartbeat)
	if err := heartbeat.Check(s.Heartbeat, s.HeartbeatInsecure); err != nil {
		return nil, c.At(dotted("schedule.heartbeat"), HeartbeatHint(err), "%v", err)
	}
	m.Address = func(context.Context) (string, error) { return s.Heartbeat, nil }
	return m, nil
}

// learnHeartbeat makes the address of the heartbeat, and the keys in it, redacted.
func (l *Loader) learnHeartbeat(address string) {
	if address == "" {
		return
	}
	for i, text := range heartbeat.Secrets(address) {
		l.Secrets.Learn("heartbeat "+strconv.Itoa(i), text)
	}
}

// HeartbeatHint returns the hint for an error of an address.
func HeartbeatHint(err error) string {
	switch {
	case errors.Is(err, heartbeat.ErrPort):
		return "a port is a number from 1 to 65535"
	case errors.Is(err, heartbeat.ErrPassword):
		return "its path and its query are secret enough"
	case errors.Is(err, heartbeat.ErrUnencrypted):
		return "use https; heartbeat_insecure = true allows http within your own network"
	}
	return heartbeatHint
}

// HeartbeatSource returns the source of the heartbeat's address, other than the key heartbeat
// itself.
func (s scheduleSection) HeartbeatSource() Source {
	return Source{File: s.HeartbeatFile, Env: s.HeartbeatEnv, Command: slices.Clone(s.HeartbeatCommand)}
}
