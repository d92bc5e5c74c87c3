package commands

import (
	"slices"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/lazy"
)

func fleetCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "fleet",
		Usage: "the NATS servers over which agents of many machines meet",
		Subcommands: []*cli.Command{
			fleetKeyCommand(p),
			fleetPlanCommand(p),
			fleetCreateCommand(p),
		},
	}
}

// seedIn matches the seed of an nkey. A public key may contain the same letters inside.
var seedIn = lazy.NewRegexp(`\bS[ACNOUX][A-Z2-7]{20,}`)

// refuseSeeds returns an error if a word of the command line contains a seed. The error does not
// repeat the word.
func refuseSeeds(given ...string) error {
	if !slices.ContainsFunc(given, seedIn.Get().MatchString) {
		return nil
	}
	return terminal.Usagef("others could have seen it, in the list of processes or the history of the shell: make another key, in another file, with `"+name+" fleet key`",
		"the command line has a seed in it, which is secret; a public key begins with U")
}
