package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/mesh"
)

// checkMesh asks how the mesh is, whether it takes our token, and who is there.
func (d *patient) checkMesh(ctx context.Context) []finding {
	const check = "mesh"
	if d.agent == nil || d.agent.Mesh == nil {
		return d.broken(check, "mesh")
	}
	if off := d.offline(check); off != nil {
		return off
	}
	c := d.agent.Mesh.Client
	status, err := c.Status(ctx)
	if err != nil {
		return []finding{failure(check, "start `agentstateloop mesh serve`, or correct url in [mesh]; mail works without it", err)}
	}
	found := []finding{good(check, "%s answers: %s online, %s waiting", c.URL, terminal.Count(status.Online, "agent"), terminal.Count(status.Waiting, "message"))}
	if status.Halted {
		found = append(found, finds(levelWarn, check, "`agentstateloop mesh resume` lifts it", "HALT is set on the mesh: no agent of it runs a turn"))
	}
	if skew := status.Date.Sub(d.loader.Now()).Abs(); !status.Date.IsZero() && skew > longestSkew {
		found = append(found, finds(levelWarn, "clock", "set this machine's clock, and keep it with NTP", "it is %s off the mesh's", terminal.Short(skew)))
	}
	found = append(found, d.checkToken(ctx)...)
	return append(found, d.checkPeers(ctx)...)
}

// checkToken looks into our mailbox, which consumes nothing, and which a token
// of another agent cannot.
func (d *patient) checkToken(ctx context.Context) []finding {
	const check = "mesh.token"
	c := d.agent.Mesh.Client
	box, err := c.Mailbox(ctx, 0)
	if err != nil {
		var hint = "each poll will fail alike"
		if e, ok := errors.AsType[*mesh.Error](err); ok && (e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden) {
			hint = fmt.Sprintf("give it the token that `mesh serve --tokens FILE` has for %s", c.Handle)
		}
		return []finding{failure(check, hint, err)}
	}
	with := "with our token"
	if c.Token == nil {
		with = "without a token"
	}
	return []finding{good(check, "our mailbox can be read %s, %s in it", with, terminal.Count(len(box.Messages), "message"))}
}

// checkPeers looks for those we are configured to speak with.
func (d *patient) checkPeers(ctx context.Context) []finding {
	m := d.agent.Mesh
	online, err := m.Client.Online(ctx)
	if err != nil {
		return []finding{failure("peers", "each poll will fail alike", err)}
	}
	there := func(handle string) bool {
		return slices.ContainsFunc(online, func(p mesh.Presence) bool { return p.Handle == handle })
	}
	found := []finding{d.checkKeymaster(there)}
	if len(m.Peers) == 0 {
		return append(found, finds(levelInfo, "peers", "list in peers of [mesh] whose messages may cause turns", "none: no message of another agent is answered"))
	}
	var away []string
	for _, p := range m.Peers {
		if !there(p) {
			away = append(away, p)
		}
	}
	if len(away) > 0 {
		return append(found, finds(levelInfo, "peers", "messages for them wait on the mesh", "not online: %s", strings.Join(away, ", ")))
	}
	return append(found, good("peers", "online: %s", strings.Join(m.Peers, ", ")))
}

// checkKeymaster looks for who is told of a password that fails.
func (d *patient) checkKeymaster(there func(string) bool) finding {
	const check = "keymaster"
	switch k := d.agent.Policy.Keymaster; {
	case k == "":
		return finds(levelInfo, check, "set keymaster in [mesh] to an agent that can rotate them", "none: no agent is told of passwords that fail")
	case k == d.agent.Handle:
		return finds(levelWarn, check, "name another agent", "%s is this agent itself", k)
	case !there(k):
		return finds(levelWarn, check, "start it; what it is told meanwhile waits on the mesh", "%s is not online on the mesh", k)
	default:
		return good(check, "%s is online", k)
	}
}
