package commands

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

// arrange sorts arguments, without the program's name, into the only order that urfave/cli
// accepts: global flags, command, its flags, "--", positional arguments. So global flags may
// come before or after the command, and all flags before or after positional arguments. @HANDLE
// before the command means the same as the flag -a. "--" ends the flags. An unknown command or
// flag is a terminal.UsageError with a suggestion.
func arrange(app *cli.App, args []string) ([]string, error) {
	a := arrangement{app: app}
	for len(args) > 0 {
		rest, err := a.take(args[0], args[1:])
		if err != nil {
			return nil, err
		}
		args = rest
	}
	return a.result()
}

// arrangeLoosely sorts arguments like arrange, and drops the wrong ones.
func arrangeLoosely(app *cli.App, args []string) *arrangement {
	a := &arrangement{app: app}
	for len(args) > 0 {
		rest, err := a.take(args[0], args[1:])
		if err != nil {
			rest = args[1:]
		}
		args = rest
	}
	return a
}

// wantsJSON reports whether arguments ask for JSON, even if they are otherwise wrong: then the
// error is printed as JSON.
func wantsJSON(app *cli.App, args []string) bool {
	named := slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "json") })
	return named && arrangeLoosely(app, args).hasSwitch("json")
}

// hasSwitch reports whether one of these global flags is set. They are flags without a value.
func (a *arrangement) hasSwitch(names ...string) bool {
	return slices.ContainsFunc(a.global, func(arg string) bool {
		given, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return slices.Contains(names, given) && value != "false" && value != "0"
	})
}

// arrangement holds the arguments sorted so far.
type arrangement struct {
	app        *cli.App
	commands   []*cli.Command // from the outermost
	global     []string       // flags of the app
	own        []string       // flags of the innermost command
	positional []string
	help       bool
	ended      bool // after "--"
}

// take sorts one argument, and returns rest without the argument's value.
func (a *arrangement) take(arg string, rest []string) ([]string, error) {
	switch {
	case a.ended:
		return rest, a.word(arg)
	case arg == "--":
		a.ended = true
		return rest, nil
	case strings.HasPrefix(arg, "-") && arg != "-":
		return a.flag(arg, rest)
	default:
		return rest, a.word(arg)
	}
}

// word sorts a command or a positional argument.
func (a *arrangement) word(arg string) error {
	if arg == "help" && len(a.commands) == 0 && !a.help {
		a.help = true
		return nil
	}
	if len(a.commands) == 0 && !a.ended && strings.HasPrefix(arg, "@") {
		return a.agent(arg)
	}
	choices := a.choices()
	if len(choices) == 0 {
		a.positional = append(a.positional, arg)
		return nil
	}
	for _, c := range choices {
		if c.HasName(arg) {
			a.commands = append(a.commands, c)
			return nil
		}
	}
	return terminal.Usagef(terminal.DidYouMean(arg, names(choices), "see "+a.path()+" --help"), "unknown command %q", a.spelled(arg))
}

// agent sorts @HANDLE, which may name only one agent.
func (a *arrangement) agent(arg string) error {
	given := "--agent=" + arg
	if i := slices.IndexFunc(a.global, func(g string) bool { return strings.HasPrefix(g, "--agent=") }); i >= 0 && a.global[i] != given {
		return terminal.Usagef("for several agents, use `"+name+" status --all`", "a command works on one agent: unexpected %s", arg)
	}
	a.global = append(a.global, given)
	return nil
}

// choices returns the commands that may come next.
func (a *arrangement) choices() []*cli.Command {
	if len(a.commands) == 0 {
		return a.app.Commands
	}
	return a.commands[len(a.commands)-1].Subcommands
}

// flag sorts a flag and its value.
func (a *arrangement) flag(arg string, rest []string) ([]string, error) {
	dashless := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	flagName, value, given := strings.Cut(dashless, "=")
	if flagName == "help" || flagName == "h" {
		a.help = true
		return rest, nil
	}
	to, f := a.find(flagName)
	if f == nil {
		return nil, terminal.Usagef(terminal.DidYouMean("--"+flagName, a.flagNames(), "see "+a.path()+" --help"), "unknown flag %s", arg)
	}
	if _, boolean := f.(*cli.BoolFlag); boolean {
		*to = append(*to, arg)
		return rest, nil
	}
	if !given && mayStandAlone(f) {
		value, given = f.(*cli.GenericFlag).Value.(*optional).without, true
	}
	if !given {
		if len(rest) == 0 {
			return nil, terminal.Usagef("see "+a.path()+" --help", "flag %s needs a value", arg)
		}
		value, rest = rest[0], rest[1:]
	}
	*to = append(*to, "--"+flagName+"="+value)
	return rest, nil
}

// find looks a flag up, first among the command's flags, then among the app's. It returns the
// list that the flag belongs to, or nil.
func (a *arrangement) find(flagName string) (*[]string, cli.Flag) {
	if len(a.commands) > 0 {
		for _, f := range a.commands[len(a.commands)-1].Flags {
			if slices.Contains(f.Names(), flagName) {
				return &a.own, f
			}
		}
	}
	for _, f := range append(slices.Clone(a.app.Flags), cli.VersionFlag) {
		if slices.Contains(f.Names(), flagName) {
			return &a.global, f
		}
	}
	return nil, nil
}

// flagNames returns the flags allowed here, for suggestions.
func (a *arrangement) flagNames() []string {
	flags := append(slices.Clone(a.app.Flags), cli.VersionFlag)
	if len(a.commands) > 0 {
		flags = append(slices.Clone(a.commands[len(a.commands)-1].Flags), flags...)
	}
	all := []string{"--help"}
	for _, f := range flags {
		all = append(all, "--"+f.Names()[0])
	}
	return all
}

func (a *arrangement) result() ([]string, error) {
	var path []string
	for _, c := range a.commands {
		path = append(path, c.Name)
	}
	if a.help {
		return append(path, "--help"), nil
	}
	if len(a.commands) > 0 && len(a.choices()) > 0 && a.commands[len(a.commands)-1].Action == nil {
		return nil, terminal.Usagef("see "+a.path()+" --help", "%s needs one of: %s", a.path(), strings.Join(names(a.choices()), ", "))
	}
	arranged := slices.Concat(a.global, path, a.own)
	if len(a.positional) > 0 {
		arranged = append(append(arranged, "--"), a.positional...)
	}
	return arranged, nil
}

// path returns the command as the user would type it.
func (a *arrangement) path() string { return a.spelled("") }

func (a *arrangement) spelled(last string) string {
	words := []string{}
	if last == "" {
		words = append(words, name)
	}
	for _, c := range a.commands {
		words = append(words, c.Name)
	}
	if last != "" {
		words = append(words, last)
	}
	return strings.Join(words, " ")
}

func names(commands []*cli.Command) []string {
	var all []string
	for _, c := range commands {
		if !c.Hidden {
			all = append(all, c.Name)
		}
	}
	return all
}
