package commands

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

exit codes: 0 done, or nothing to do; 1 error; 2 wrong usage or configuration;
3 the cycle ran but a source could not be read; 75 another poll is at work;
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
{{range .VisibleFlags}}  {{.}}
{{end}}`
)
