package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/fleet"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

const (
	// slowTrip is the longest exchange with a server without a warning.
	slowTrip = 500 * time.Millisecond

	// oldestServer is the oldest version of nats-server with the features the mesh needs.
	oldestServer = "2.14"

	createHint = "`agentstateloop fleet create --admin-key FILE` creates it if it is missing"
	planHint   = "print a new server configuration with `agentstateloop fleet plan`, and reload the servers"
	quorumHint = "more than half of the servers must run and reach one another; after one stops, the others need a few seconds: run doctor again"
)

// overNATS checks the servers of a mesh over NATS: each server, our rights, our mailbox and the
// streams. It stores no data there, and takes no message.
func (c meshCheck) overNATS(ctx context.Context, client *natsmesh.Client) []Finding {
	const name = "mesh"
	seen, err := client.Examine(ctx)
	if _, ok := state.CredentialFailure(err); ok {
		return []Finding{skip(name, "the key could not be read", "see secret.mesh")}
	}
	if err != nil {
		return []Finding{failure(name, "correct url in [mesh]", err)}
	}
	found := c.servers(seen.Servers)
	if seen.Asked == "" {
		return found
	}
	found = append(found, c.haltAndClock(seen.Halted, seen.Mailbox.Clock)...)
	found = append(found, rights(seen)...)
	if c.fleet {
		found = append(found, fleetRights(seen)...)
	}
	found = append(found, c.mailbox(seen)...)
	found = append(found, streams(seen)...)
	if registry := assetOf(seen, fleet.WhoStream); registry != fleet.AssetThere {
		return append(found, skip("peers", "the registry cannot be read", "see mesh.streams"))
	}
	return append(found, c.peers(ctx)...)
}

// servers returns a finding for each server of the url.
func (c meshCheck) servers(servers []fleet.ServerSeen) (found []Finding) {
	const name = "mesh"
	level := Error
	if slices.ContainsFunc(servers, func(s fleet.ServerSeen) bool { return s.Err == nil }) {
		level = Warn // the others carry the mesh
	}
	clusters := map[string]bool{}
	for _, s := range servers {
		if s.Err != nil {
			found = append(found, bad(level, name, c.serverHint(s.Err), "%v", s.Err))
			continue
		}
		clusters[s.Cluster] = true
		f := good(name, "%s answers: nats-server %s, %s; it accepts the key; a round trip takes %s", s.Address, s.Version, s.Name, formatRoundTrip(s.Trip))
		switch {
		case isOlder(s.Version, oldestServer):
			f.Level, f.Hint = Warn, "install nats-server "+oldestServer+" or later"
		case s.Trip > slowTrip:
			f.Level, f.Hint = Warn, "each poll needs at least five round trips; use servers nearby"
		case s.MaxPayload < fleet.MinPayload:
			f = bad(Warn, name, "set max_payload to its default, 1MB, in the server configuration",
				"%s accepts at most %d bytes at once, but files are sent in chunks of %d", s.Address, s.MaxPayload, fleet.MinPayload)
		}
		found = append(found, f)
	}
	if len(clusters) > 1 || len(servers) > 1 && clusters[""] {
		found = append(found, bad(Warn, name, planHint, "the servers in url are not one cluster: they do not share messages"))
	}
	return found
}

func formatRoundTrip(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// isOlder reports whether a version such as 2.9.3 is older than one such as 2.14.
func isOlder(version, than string) bool {
	have, want := strings.Split(version, "."), strings.Split(than, ".")
	for i := range min(len(have), len(want)) {
		h, err := strconv.Atoi(have[i])
		w, _ := strconv.Atoi(want[i]) // than is a constant of ours
		if err != nil || h != w {
			return err == nil && h < w
		}
	}
	return false
}

// serverHint returns the hint for an unusable server.
func (c meshCheck) serverHint(err error) string {
	if errors.Is(err, fleet.ErrAuthority) {
		return "set ca_file in [mesh] to the certificate of that authority, if it is your own"
	}
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Denied {
		return c.config.MeshSecretHint(c.handle)
	}
	if c.fleet {
		return "start nats-server there, or correct url in [mesh]; until then this agent does nothing, mail included"
	}
	return "start nats-server there, or correct url in [mesh]; mail works without the mesh"
}

// rights returns the findings about the rights of our key.
func rights(seen fleet.Examination) (found []Finding) {
	const name = "mesh.rights"
	for _, right := range seen.Lacks {
		found = append(found, bad(Error, name, planHint, "the key lacks a right: it may not %s", right))
	}
	if len(seen.Excess) > 0 {
		found = append(found, bad(Warn, name, "if this is the administrator's key, use the agent's own; otherwise "+planHint,
			"the key has rights that an agent must not have: %s", strings.Join(seen.Excess, "; ")))
	}
	if len(found) == 0 {
		found = append(found, good(name, "the key has all %s that an agent needs, and none that it must not have; nothing was sent", terminal.Count(seen.Tried, "right")))
	}
	return found
}

// mailbox returns the findings about our mailbox, and about the replicas of its messages.
func (c meshCheck) mailbox(seen fleet.Examination) (found []Finding) {
	const name = "mesh.mailbox"
	box := seen.Mailbox
	switch box.State {
	case fleet.AssetThere:
	case fleet.AssetMissing:
		return []Finding{bad(Error, name, createHint, "the server has no mailbox for %s, and accepts no messages for it", c.handle)}
	case fleet.AssetUnseen:
		return []Finding{skip(name, "the key may not read it", "see mesh.rights")}
	default:
		return []Finding{bad(Error, name, quorumHint, "the mailbox does not answer: it has no quorum")}
	}
	if len(box.Differs) > 0 {
		found = append(found, bad(Warn, name, "`agentstateloop fleet create --admin-key FILE` repairs it", "the mailbox has the wrong settings: %s", strings.Join(box.Differs, "; ")))
	}
	if want := fleet.Replicas(len(seen.Servers)); len(seen.Servers) > 1 && len(box.Copies) < want {
		found = append(found, bad(Warn, name, "`agentstateloop fleet create --check --admin-key FILE` shows what to change",
			"messages are stored only on %s, of %d servers, and are lost with it", strings.Join(box.Copies, " and "), len(seen.Servers)))
	}
	if len(box.Behind) > 0 {
		found = append(found, bad(Warn, name, "start it, and check that the servers reach one another; the others continue without it",
			"the copy on %s is offline, or behind", strings.Join(box.Behind, " and on ")))
	}
	if len(found) > 0 {
		return found
	}
	text := terminal.Count(box.Waiting, "message") + " waiting"
	if len(box.Copies) > 1 {
		text += ", stored on " + strings.Join(box.Copies, ", ")
	}
	return []Finding{good(name, "%s", text)}
}

// streams returns the findings about the server's streams.
func streams(seen fleet.Examination) (found []Finding) {
	const name = "mesh.streams"
	var there, unseen []string
	for _, a := range seen.Assets {
		switch a.State {
		case fleet.AssetThere:
			there = append(there, a.Stream)
		case fleet.AssetUnseen:
			unseen = append(unseen, a.Stream)
		case fleet.AssetMissing:
			hint := createHint
			if len(seen.Servers) > 1 {
				hint += "; otherwise " + quorumHint
			}
			found = append(found, bad(Error, name, hint, "no answer from %s, %s", a.Stream, a.Holds))
		case fleet.AssetStuck:
			found = append(found, bad(Error, name, quorumHint, "%s, %s, is readable but accepts no writes: it has no quorum", a.Stream, a.Holds))
		default:
			found = append(found, bad(Error, name, quorumHint, "%s, %s, does not answer: it has no quorum", a.Stream, a.Holds))
		}
	}
	if len(there) > 0 {
		found = append(found, good(name, "%s: present", strings.Join(there, ", ")))
	}
	text := "an agent cannot read the stream settings, or sync_interval of the servers, which must be always"
	if len(unseen) > 0 {
		text = "an agent cannot read " + strings.Join(unseen, ", ") + ", the settings of the other streams, or sync_interval of the servers, which must be always"
	}
	return append(found, bad(Info, name, "`agentstateloop fleet create --check --admin-key FILE` checks the streams; look for `sync_interval: always` in the configuration of each server", "%s", text))
}

func assetOf(seen fleet.Examination, stream string) fleet.AssetState {
	for _, a := range seen.Assets {
		if a.Stream == stream {
			return a.State
		}
	}
	return fleet.AssetUnseen
}
