package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

// fileOutput is the JSON of a text for a file: a script, a unit, a configuration.
type fileOutput struct {
	Text string `json:"text"`
}

// printFile prints a text for a file unchanged, or as JSON.
func printFile(c *cli.Context, out *terminal.Output, text string) error {
	if c.Bool("json") {
		return out.JSON(fileOutput{Text: text})
	}
	out.Verbatim(text)
	return nil
}
