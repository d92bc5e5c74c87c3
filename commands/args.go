package commands

import (
	"slices"
	"strings"

	"agentstateloop/commands/terminal"

	"github.com/urfave/cli/v2"
)

const completionFlag = "--generate-bash-completion"

// arrange puts arguments (without the program's name) into the one order in
// which urfave/cli reads them: global flags, command, its flags, "--",
// positional arguments. So flags may stand anywhere: global ones before or
// after the command, all of them before or after positionals. "--" ends the
// flags. An unknown command or flag is a usageError with a suggestion.
func arrange(app *cli.App, args []string) ([]string, error) {
	if slices.Contains(args, completionFlag) {
		return args, nil
	}
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

// arrangement is arguments sorted so far.
type arrangement struct {
	app        *cli.App
	commands   []*cli.Command // from the outermost
	global     []string       // flags of the app
	own        []string       // flags of the innermost command
	positional []string
	help       bool
	ended      bool // "--" was there
}

// take sorts one argument in and returns what is left of rest.
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

// word sorts a command or a positional argument in.
func (a *arrangement) word(arg string) error {
	if arg == "help" && len(a.commands) == 0 && !a.help {
		a.help = true
		return nil
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

// choices are the commands one of which may come next.
func (a *arrangement) choices() []*cli.Command {
	if len(a.commands) == 0 {
		return a.app.Commands
	}
	return a.commands[len(a.commands)-1].Subcommands
}

// flag sorts a flag and its value in.
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
			return nil, terminal.Usagef("see "+a.path()+" --help", "flag %s wants a value", arg)
		}
		value, rest = rest[0], rest[1:]
	}
	*to = append(*to, "--"+flagName+"="+value)
	return rest, nil
}

// find looks a flag up, the command's before the app's, and says where it goes.
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

// flagNames are the flags that could stand here, for suggestions.
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
	if len(a.commands) > 0 && len(a.choices()) > 0 {
		return nil, terminal.Usagef("see "+a.path()+" --help", "%s wants one of: %s", a.path(), strings.Join(names(a.choices()), ", "))
	}
	arranged := slices.Concat(a.global, path, a.own)
	if len(a.positional) > 0 {
		arranged = append(append(arranged, "--"), a.positional...)
	}
	return arranged, nil
}

// path is the command as the user would type it.
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
