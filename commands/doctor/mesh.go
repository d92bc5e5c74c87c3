package doctor

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

// meshCheck checks that the mesh answers, that it accepts our token or key, and which agents are
// online.
type meshCheck struct {
	config    *config.Config
	mesh      *cycle.Mesh
	handle    string // of this agent
	keymaster string // "" if it is not configured
	fleet     bool   // the agent lives on several hosts
	outbox    []state.Effect
	now       func() time.Time
}

func (c meshCheck) run(ctx context.Context) []Finding {
	const name = "mesh"
	carrier := c.mesh.Carrier
	if client, ok := carrier.(*natsmesh.Client); ok {
		return c.overNATS(ctx, client)
	}
	status, err := carrier.Status(ctx)
	if err != nil {
		return []Finding{failure(name, "start `agentstateloop mesh serve`, or correct url in [mesh]; mail works without the mesh", err)}
	}
	found := []Finding{good(name, "%s answers: %s online, %s waiting", carrier.Address(), terminal.Count(status.Online, "agent"), terminal.Count(status.Waiting, "message"))}
	found = append(found, c.haltAndClock(status.Halted, status.Date)...)
	found = append(found, c.token(ctx))
	found = append(found, c.unconfirmed()...)
	return append(found, c.peers(ctx)...)
}

// haltAndClock returns the findings about HALT, and about the difference between our clock and that
// of the mesh. date is zero if the time of the mesh is unknown.
func (c meshCheck) haltAndClock(halted bool, date time.Time) (found []Finding) {
	if halted {
		found = append(found, bad(Warn, "mesh", "run `agentstateloop mesh resume` to lift it", "HALT is set on the mesh: its agents run no turns"))
	}
	if skew := date.Sub(c.now()).Abs(); !date.IsZero() && skew > maxSkew {
		found = append(found, bad(Warn, "clock", clockHint, "this machine's clock differs from the mesh's by %s", terminal.Short(skew)))
	}
	return found
}

// token reads our mailbox. That needs our token, and removes no message.
func (c meshCheck) token(ctx context.Context) Finding {
	const name = "mesh.token"
	box, err := c.mesh.Carrier.Mailbox(ctx, 0)
	if err != nil {
		hint := "polls will fail too"
		if e, ok := errors.AsType[*mesh.Error](err); ok && (e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden) {
			hint = c.config.MeshSecretHint(c.handle)
		}
		return failure(name, hint, err)
	}
	with := "with the token"
	if c.config.File.Mesh.Secret().CountSet() == 0 {
		with = "without a token"
	}
	return good(name, "the mailbox is readable %s, %s waiting", with, terminal.Count(len(box.Messages), "message"))
}

// unconfirmed looks for messages that a service answered but, as far as we can tell, did not
// accept.
func (c meshCheck) unconfirmed() []Finding {
	n := 0
	for _, e := range c.outbox {
		if e.Channel == state.ByMesh && strings.Contains(e.Reason, mesh.ErrNotTaken.Error()) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []Finding{bad(Warn, "mesh.taken",
		`if this mesh never returns ids, set receipt = "status" in [mesh]; if it has another key for the id, set id in [mesh.keys_in]; otherwise url is some other service`,
		"the mesh answered %s without the id; each is sent at most five times, then it is undeliverable", terminal.Count(n, "message"))}
}

// peers looks for the configured agents.
func (c meshCheck) peers(ctx context.Context) []Finding {
	const name = "peers"
	online, err := c.mesh.Carrier.Online(ctx)
	if err != nil {
		return []Finding{failure(name, "polls will fail too", err)}
	}
	isOnline := func(handle string) bool {
		return slices.ContainsFunc(online, func(p mesh.Presence) bool { return p.Handle == handle })
	}
	found := append(c.otherHosts(online), c.checkKeymaster(isOnline))
	peers := c.mesh.Peers
	if len(peers) == 0 {
		return append(found, bad(Info, name, "add the agents whose messages may cause turns to peers in [mesh]", "none: the agent answers no other agents"))
	}
	if away := slices.DeleteFunc(slices.Clone(peers), isOnline); len(away) > 0 {
		return append(found, bad(Info, name, "messages for them wait on the mesh", "not online: %s", strings.Join(away, ", ")))
	}
	return append(found, good(name, "online: %s", strings.Join(peers, ", ")))
}

// otherHosts looks for other machines where an agent with our handle polls: each message to it
// reaches only one of them. A mesh over HTTP does not list hosts.
func (c meshCheck) otherHosts(online []mesh.Presence) (found []Finding) {
	client, ok := c.mesh.Carrier.(*natsmesh.Client)
	if !ok || c.fleet {
		return nil
	}
	for _, p := range online {
		for _, h := range p.Hosts {
			if p.Handle == c.handle && h.Host != client.Host && !h.Away {
				found = append(found, bad(Warn, "mesh", "run `agentstateloop uninstall` on one of the two, unless the agent has just moved",
					"@%s also polls on %s, last seen %s: each message reaches only one of the two machines", c.handle, h.Host, terminal.Clock(h.SeenAt, c.now())))
			}
		}
	}
	return found
}

// checkKeymaster checks that the keymaster, which is informed about failing passwords, is online.
func (c meshCheck) checkKeymaster(isOnline func(string) bool) Finding {
	const name = "keymaster"
	switch k := c.keymaster; {
	case k == "":
		return bad(Info, name, "set keymaster in [mesh] to an agent that can rotate passwords", "none: no agent is told about failing passwords")
	case k == c.handle:
		return bad(Warn, name, "name another agent", "%s is this agent", k)
	case !isOnline(k):
		return bad(Warn, name, "start it; until then alarms for it wait on the mesh", "%s is not online", k)
	default:
		return good(name, "%s is online", k)
	}
}

// meshKey adds the public key to the finding about our secret of a mesh over NATS. It never shows
// the seed.
func (c secretsCheck) meshKey(ctx context.Context, f Finding) Finding {
	source := c.config.File.Mesh.Secret()
	seed, err := c.loader.Secret(c.config, source)(ctx)
	if errors.Is(err, os.ErrNotExist) && source.File != "" {
		f.Hint = "run `" + terminal.Program + " fleet key`, and set key_file in [mesh] to the file that it writes"
	}
	if err != nil || f.Level != OK {
		return f
	}
	public, err := fleet.PublicKey(seed)
	if err != nil {
		return failure(f.Check, "create a key with `"+terminal.Program+" fleet key`, or fix its source in [mesh]; a seed begins with SU", err)
	}
	for _, handle := range slices.Sorted(maps.Keys(c.config.File.Mesh.Keys)) {
		if c.config.File.Mesh.Keys[handle] == public {
			return bad(Warn, f.Check, "each agent needs its own key: run `"+terminal.Program+" fleet key` on that agent's machine to print its public key",
				"[mesh.keys] lists this agent's key as the key of %s", handle)
		}
	}
	f.Text += "; the public key is " + public
	return f
}

// meshKeysCheck checks that the configuration has a key for each agent whose messages a mesh over
// NATS must authenticate. Keys of other agents do no harm.
type meshKeysCheck struct {
	config    *config.Config
	mesh      *cycle.Mesh // nil without a mesh
	keymaster string      // "" if it is not configured
}

func (c meshKeysCheck) run(context.Context) []Finding {
	const name = "mesh.keys"
	if c.mesh == nil || !c.config.File.Mesh.OverNATS() {
		return nil
	}
	needed := slices.Clone(c.mesh.Peers)
	if c.keymaster != "" && c.keymaster != c.mesh.Handle {
		needed = append(needed, c.keymaster)
	}
	slices.Sort(needed)
	needed = slices.Compact(needed)
	if len(needed) == 0 {
		return nil
	}
	missing := slices.DeleteFunc(slices.Clone(needed), func(handle string) bool { return c.config.File.Mesh.Keys[handle] != "" })
	if len(missing) == 0 {
		return []Finding{good(name, "keys prove the messages of %s", strings.Join(needed, ", "))}
	}
	effect := "they cause no turns"
	if c.mesh.Open {
		effect = `[trust] mesh = "open" lets them cause turns anyway`
	}
	return []Finding{bad(Warn, name, "run `"+terminal.Program+" fleet key` on that agent's machine, and add the public key to [mesh.keys]",
		"no key for %s: their messages are unproven, and %s", strings.Join(missing, ", "), effect)}
}
