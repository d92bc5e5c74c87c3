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
  --help         show this, or the help of a command
  --version      print the version

begin with agentstateloop init; agentstateloop COMMAND --help shows more

exit codes: 0 done, or nothing to do; 1 error; 2 invalid usage or configuration;
3 the cycle ran but mail, mesh or a login failed; 75 another poll is running;
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

// flagLines returns the lines of a help page for flags, in their order. A word in
// backquotes in a flag's usage is the name of its value. If the usage begins with
// it and a colon, both are left out.
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

// defaultOf returns the value of a flag that is not given, or "".
func defaultOf(f cli.DocGenerationFlag) string {
	if !f.TakesValue() {
		return ""
	}
	return strings.Trim(f.GetDefaultText(), `"`)
}
