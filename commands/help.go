package commands

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// The help pages, as urfave/cli templates. Lines stay within 80 columns.
const (
	appHelp = `{{.Name}} - {{.Usage}}

usage: {{.Name}} [--config FILE] [--json] COMMAND [flags] [arguments]

commands:
{{range .VisibleCommands}}  {{printf "%-11s" .Name}} {{.Usage}}
{{end}}
flags, before or after the command:
  --config FILE  the agent's configuration; else $AGENTSTATELOOP_CONFIG,
                 ./agent.toml, $XDG_CONFIG_HOME/agentstateloop/agent.toml
                 (or ~/.config/agentstateloop/agent.toml)
  --json         print JSON
  --help         this, or the help of a command
  --version      print the version

begin with agentstateloop init; agentstateloop COMMAND --help says more of each

exit codes: 0 done, or nothing to do; 1 error; 2 wrong usage or configuration;
3 the cycle ran but mail, mesh or a login failed; 75 another poll is at work;
of nudge --wait: 4 refused, 5 timed out, 6 failed
`

	commandHelp = `{{.HelpName}} - {{.Usage}}

usage: {{.HelpName}}{{if .Subcommands}} COMMAND{{end}}{{if .VisibleFlags}} [flags]{{end}}{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}
{{if .Subcommands}}
commands:
{{range .VisibleCommands}}  {{printf "%-11s" .Name}} {{.Usage}}
{{end}}{{end}}{{if .Description}}
{{.Description}}
{{end}}
flags (--config FILE and --json work too):
`
)

// flagLines are the lines of a help page for flags, in their order. What stands
// in backquotes in a flag's text is the name of its value; a text that begins
// with nothing but that and a colon begins behind them.
func flagLines(flags []cli.Flag) string {
	var b strings.Builder
	for _, f := range flags {
		f := f.(cli.DocGenerationFlag)
		before, rest, _ := strings.Cut(f.GetUsage(), "`")
		value, after, _ := strings.Cut(rest, "`")
		usage := before + value + after
		if text, alone := strings.CutPrefix(after, ": "); alone && before == "" {
			usage = text
		}
		head := dashed(f.Names()[0])
		if mayStandAlone(f) {
			head += "[=" + value + "]"
		} else if value != "" {
			head += " " + value
		}
		if given := defaultOf(f); given != "" {
			usage += " (default: " + given + ")"
		}
		fmt.Fprintf(&b, "  %s\t%s\n", head, usage)
	}
	b.WriteString("  --help\tshow this\n")
	return b.String()
}

// defaultOf is what a flag stands for that is not given; "" where that is nothing.
func defaultOf(f cli.DocGenerationFlag) string {
	if !f.TakesValue() {
		return ""
	}
	return strings.Trim(f.GetDefaultText(), `"`)
}
