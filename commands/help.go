package commands

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

// appHelp returns the --help page of an app with all commands, as a template of urfave/cli. Its
// lines stay within 80 columns. note is about this machine, or "".
func appHelp(app *cli.App, note string) string {
	var b strings.Builder
	b.WriteString(`{{.Name}} - {{.Usage}}

usage: {{.Name}} [@HANDLE] [--json] COMMAND [flags] [arguments]
`)
	for _, g := range groups() {
		if g.title == "" {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, c := range g.commands {
			fmt.Fprintf(&b, "  %-11s %s\n", c.name, app.Command(c.name).Usage)
		}
	}
	if note != "" {
		note = "\n" + literal(terminal.Wrap(note, 80)) + "\n"
	}
	b.WriteString("\nflags, before or after the command:\n")
	for _, f := range globalFlags {
		b.WriteString(literal(terminal.WrapHanging(fmt.Sprintf("  %-13s  %s", f.head(), f.text), 80, 17) + "\n"))
	}
	return b.String() + note + `
start with agentstateloop init; for details: agentstateloop COMMAND --help

` + terminal.Wrap("exit codes: "+exitCodes, 80) + "\n"
}

// globalFlags are the flags of all commands, for people.
var globalFlags = []flagHelp{
	{"-a", " HANDLE", "use the agent HANDLE, like @HANDLE; searches the default folders of configurations, and your crontab"},
	{"--config", " FILE", "use this configuration; default: $AGENTSTATELOOP_CONFIG, ./agent.toml, $XDG_CONFIG_HOME/agentstateloop/agent.toml (or ~/.config/agentstateloop/agent.toml)"},
	{"--json", "", "print JSON, also for errors; see docs/json.md"},
	{"--help", "", "show this help, or that of a command"},
	{"--version", "", "print the version"},
}

const exitCodes = `0 done, or nothing to do; 1 error; 2 invalid usage or configuration; 3 the cycle ran but mail, mesh or a login failed; 75 another poll is running, or another host acts; of nudge --wait: 4 refused, 5 timed out, 6 failed`

// literal returns a template that produces text.
func literal(text string) string { return "{{" + strconv.Quote(text) + "}}" }

// setHelp sets the help page of a command and of its subcommands.
func setHelp(c *cli.Command) {
	c.CustomHelpTemplate = commandHelp + flagLines(c.Flags)
	for _, sub := range c.Subcommands {
		setHelp(sub)
	}
}

// commandHelp is the help page of a command, without its flags.
const commandHelp = `{{.HelpName}} - {{.Usage}}

usage: {{.HelpName}}{{if .Subcommands}} COMMAND{{end}} [flags]{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}
{{if .Subcommands}}
commands:
{{range .VisibleCommands}}  {{printf "%-11s" .Name}} {{.Usage}}
{{end}}{{end}}{{if .Description}}
{{.Description}}
{{end}}
flags, as well as -a HANDLE, --config FILE and --json:
`

// flagHelp is the help of a flag.
type flagHelp struct {
	flag  string // such as --timeout
	value string // such as " DURATION", "[=POINT]" or ""
	text  string
}

func (f flagHelp) head() string { return f.flag + f.value }

// flagLines returns the lines of a help page for flags.
func flagLines(flags []cli.Flag) string {
	var b strings.Builder
	for _, f := range flags {
		h := helpOf(f)
		fmt.Fprintf(&b, "  %s\t%s\n", h.head(), h.text)
	}
	b.WriteString("  --help\tshow this help\n")
	return b.String()
}

// helpOf returns the help of a flag. A word in backquotes in the flag's usage is the name of its
// value. If the usage begins with that word and a colon, both are left out.
func helpOf(f cli.Flag) flagHelp {
	doc := f.(cli.DocGenerationFlag)
	before, rest, _ := strings.Cut(doc.GetUsage(), "`")
	value, after, _ := strings.Cut(rest, "`")
	h := flagHelp{flag: dashed(f.Names()[0]), text: before + value + after}
	if text, alone := strings.CutPrefix(after, ": "); alone && before == "" {
		h.text = text
	}
	if mayStandAlone(f) {
		h.value = "[=" + value + "]"
	} else if value != "" {
		h.value = " " + value
	}
	if given := defaultOf(doc); given != "" {
		h.text += " (default: " + given + ")"
	}
	return h
}

// defaultOf returns the default of a flag, or "".
func defaultOf(f cli.DocGenerationFlag) string {
	if !f.TakesValue() {
		return ""
	}
	return strings.Trim(f.GetDefaultText(), `"`)
}

// helpOutput is the JSON of a help page.
type helpOutput struct {
	Command string `json:"command"` // "" for the program itself
	Help    string `json:"help"`
}

// helpAsJSON prints the requested help page as JSON.
func (p *program) helpAsJSON(app *cli.App, asked *arrangement, arranged []string) error {
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
