package commands

import (
	"bytes"
	"strings"

	"github.com/urfave/cli/v2"
)

// helpOutput is the JSON of a help page.
type helpOutput struct {
	Command string `json:"command"` // "" for the program itself
	Help    string `json:"help"`
}

// pageAsJSON prints the requested help page, or the version, as JSON.
func (p *program) pageAsJSON(app *cli.App, asked *arrangement, arranged []string) error {
	if !asked.help && asked.hasSwitch(cli.VersionFlag.Names()...) {
		return p.out.JSON(buildOf())
	}
	var page bytes.Buffer
	app.Writer = &page
	if err := app.Run(append([]string{name}, arranged...)); err != nil {
		return err
	}
	var command []string
	for _, c := range asked.commands {
		command = append(command, c.Name)
	}
	return p.out.JSON(helpOutput{Command: strings.Join(command, " "), Help: page.String()})
}
