package commands

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestBuilders checks that each command has the name under which it is built, no other
// one, and that no two have the same.
func TestBuilders(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range builders() {
		if c := b.build(testProgram()); !slices.Equal(c.Names(), []string{b.name}) {
			t.Errorf("%s builds a command with the names %q", b.name, c.Names())
		}
		if seen[b.name] {
			t.Errorf("%s is there twice", b.name)
		}
		seen[b.name] = true
	}
}

// TestOnlyNamedCommandsAreBuilt checks that a command line builds the commands that it
// names, and no other.
func TestOnlyNamedCommandsAreBuilt(t *testing.T) {
	all := len(builders())
	for _, test := range []struct {
		args string
		want int
	}{
		{"poll --quiet --config agent.toml", 1},
		{"@goulard inbox show 12", 1},
		{"tell stop", 2}, // only arrange knows that stop is not a command here
		{"--json nudge", 1},
		{"", all},
		{"--config poll", all},
		{"poll --help", all},
		{"help poll", all},
		{"pol", all},
	} {
		app := testProgram().appFor(strings.Fields(test.args))
		if n := len(app.Commands); n != test.want {
			t.Errorf("%q: %d commands were built, want %d", test.args, n, test.want)
		}
	}
}

// TestAppForIsTheWholeApp runs command lines that do not get as far as a command's work,
// with the commands that they name and with all of them. What is printed and the error
// are the same.
func TestAppForIsTheWholeApp(t *testing.T) {
	lines := []string{
		"", "--json", "--version", "-v", "--version poll", "poll --version", "--version=false poll --no", "help", "-h", "--help", "help help", "--json --help", "help --json zzz",
		"@goulard", "@goulard @dorlange status", "zzz", "pol", "zzz poll", "statu poll", "poll stop", "--agent poll", "--agent poll zzz", "--config", "--config=poll",
		"-- pol", "-- poll x", "inbox", "inbox --json", "inbox lst", "mesh poll", "stop inbox lst", "--nonsense", "--json=maybe poll", "poll --linger soon", "poll --linger soon --json",
	}
	var add func(path string, commands []*cli.Command)
	add = func(path string, commands []*cli.Command) {
		for _, c := range commands {
			line := path + c.Name
			for _, rest := range []string{" --help", " -h --json", " --nonsense", " --jso", " --json --nonsense", " --config", " --json=maybe", " --json=maybe zzz"} {
				lines = append(lines, line+rest)
			}
			lines = append(lines, "help "+line, "zzz "+line, line+" zzz --help", "--config x "+line+" --nonsense=1")
			add(line+" ", c.Subcommands)
		}
	}
	add("", testProgram().app().Commands)
	for _, line := range lines {
		args := strings.Fields(line)
		want, got := runOf(t, args, (*program).app), runOf(t, args, func(p *program) *cli.App { return p.appFor(args) })
		if got != want {
			t.Errorf("%q: with the commands that it names:\n%s\nwith all commands:\n%s", line, got, want)
		}
	}
}

// runOf runs an app of a program and returns all that can be seen of it.
func runOf(t *testing.T, args []string, appOf func(*program) *cli.App) string {
	t.Helper()
	var out, errOut bytes.Buffer
	p := testProgram()
	p.loader.Version = "v0"
	p.out.Stdout, p.out.Stderr = &out, &errOut
	app := appOf(p)
	p.json = wantsJSON(app, args)
	if err := p.runApp(t.Context(), app, args); err != nil {
		p.out.Error(err.Error(), hintOf(err))
		p.failed(err)
	}
	if out.Len()+errOut.Len() == 0 {
		t.Errorf("%q prints nothing", args)
	}
	return out.String() + errOut.String()
}
