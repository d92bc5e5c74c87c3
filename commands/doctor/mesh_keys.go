package doctor

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/fleet"
)

// meshKey adds the public key to the finding about our secret of a mesh over NATS. It never shows
// the seed.
func (c secretsCheck) meshKey(ctx context.Context, f Finding) Finding {
	source := c.config.File.Mesh.Secret()
	seed, err := c.loader.Secret(c.config, source)(ctx)
	if errors.Is(err, os.ErrNotExist) && source.File != "" {
		f.Hint = "run `" + terminal.Program + " fleet key`, and set key_file in [mesh] to the file that it names"
	}
	if err != nil || f.Level != OK {
		return f
	}
	public, err := fleet.PublicKey(seed)
	if err != nil {
		return failure(f.Check, "make a key with `"+terminal.Program+" fleet key`, or correct where it is found; its seed begins with SU", err)
	}
	for _, handle := range slices.Sorted(maps.Keys(c.config.File.Mesh.Keys)) {
		if c.config.File.Mesh.Keys[handle] == public {
			return bad(Warn, f.Check, "each agent needs a key of its own: `"+terminal.Program+" fleet key` prints its public one on its machine",
				"the key of this agent stands in [mesh.keys] as that of %s", handle)
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
		return []Finding{good(name, "a key proves the messages of %s", strings.Join(needed, ", "))}
	}
	effect := "they cause no turns"
	if c.mesh.Open {
		effect = `[trust] mesh = "open" lets them cause turns all the same`
	}
	return []Finding{bad(Warn, name, "`"+terminal.Program+" fleet key` prints it on the machine of that agent; put it into [mesh.keys]",
		"no key of %s: nothing proves their messages, and %s", strings.Join(missing, ", "), effect)}
}
