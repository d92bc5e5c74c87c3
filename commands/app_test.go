package commands

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

// TestCommandNamesAreUnique checks that each builder builds a command of its name, and that no two
// have the same name.
func TestCommandNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range builders() {
		if c := b.build(testProgram()); !slices.Equal(c.Names(), []string{b.name}) {
			t.Errorf("%s builds a command with the names %q", b.name, c.Names())
		}
		if seen[b.name] {
			t.Errorf("%s is listed twice", b.name)
		}
		seen[b.name] = true
	}
}

// TestBuildsOnlyNamedCommands checks that a command line builds only the commands that it names.
func TestBuildsOnlyNamedCommands(t *testing.T) {
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

// TestAppForMatchesApp runs command lines that end before a command's work, with the commands that
// they name and with all commands. The output and the error are the same.
func TestAppForMatchesApp(t *testing.T) {
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
		want, got := outputOfApp(t, args, (*program).app), outputOfApp(t, args, func(p *program) *cli.App { return p.appFor(args) })
		if got != want {
			t.Errorf("%q: with the commands that it names:\n%s\nwith all commands:\n%s", line, got, want)
		}
	}
}

// outputOfApp runs an app of a program and returns its output.
func outputOfApp(t *testing.T, args []string, appOf func(*program) *cli.App) string {
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

// TestArrangeOrdersFlags checks that flags of the program come first and those of a command before
// its arguments.
func TestArrangeOrdersFlags(t *testing.T) {
	app := testProgram().app()
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"poll", "poll"},
		{"--json poll --config a.toml --quiet", "--json --config=a.toml poll --quiet"},
		{"poll --quiet --json --config=a.toml", "--json --config=a.toml poll --quiet"},
		{"nudge goulard --reason now", "nudge --reason=now -- goulard"},
		{"nudge --reason now goulard --no-poll", "nudge --reason=now --no-poll -- goulard"},
		{"nudge --reason --config", "nudge --reason=--config"},
		{"nudge --no-poll=false", "nudge --no-poll=false"},
		{"tell -- --json", "tell -- --json"},
		{"tell -", "tell -- -"},
		{"tell help", "tell -- help"},
		{"--config a.toml inbox --json list", "--config=a.toml --json inbox list"},
		{"inbox show 12", "inbox show -- 12"},
		{"history -n 5", "history --n=5"},
		{"history -n -5", "history --n=-5"},
		{"poll --help --if-due", "poll --help"},
		{"help", "--help"},
		{"-h", "--help"},
		{"help inbox show", "inbox show --help"},
		{"help inbox", "inbox --help"},
		{"--version", "--version"},
		{"@goulard status", "--agent=@goulard status"},
		{"-a goulard status --json", "--a=goulard --json status"},
		{"status -a goulard", "--a=goulard status"},
		{"tell @goulard", "tell -- @goulard"},
	} {
		got, err := arrange(app, strings.Fields(test.in))
		if err != nil || !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("arrange(%q) = %q, %v; want %q", test.in, got, err, test.want)
		}
	}
}

// TestArrangeRefusesUnknownWords checks the error and the hint for wrong command lines.
func TestArrangeRefusesUnknownWords(t *testing.T) {
	app := testProgram().app()
	for _, test := range []struct{ in, text, hint string }{
		{"pol", `unknown command "pol"`, "did you mean poll?"},
		{"zzzzzz", `unknown command "zzzzzz"`, "see agentstateloop --help"},
		{"help pol", `unknown command "pol"`, "did you mean poll?"},
		{"inbox lst", `unknown command "inbox lst"`, "did you mean list?"},
		{"inbox", "agentstateloop inbox needs one of: list, show, next, done, retry, drop, release", "see agentstateloop inbox --help"},
		{"poll --if-deu", "unknown flag --if-deu", "did you mean --if-due?"},
		{"poll --cofnig x", "unknown flag --cofnig", "did you mean --config?"},
		{"poll -x", "unknown flag -x", "see agentstateloop poll --help"},
		{"status --reason x", "unknown flag --reason", ""},
		{"@goulard @dorlange status", "a command works on one agent: unexpected @dorlange", "for several agents, use `agentstateloop status --all`"},
		{"poll --config", "flag --config needs a value", "see agentstateloop poll --help"},
	} {
		_, err := arrange(app, strings.Fields(test.in))
		usage, ok := errors.AsType[*terminal.UsageError](err)
		if !ok || usage.Text != test.text || test.hint != "" && usage.Advice != test.hint {
			t.Errorf("arrange(%q): %+v; want %q, hint %q", test.in, err, test.text, test.hint)
		}
	}
}

// TestHelpPagesComplete checks that every help page fits 80 columns, shows an example, and
// names the value of each flag that takes one, and that each command is in one group.
func TestHelpPagesComplete(t *testing.T) {
	var pages func(path []string, commands []*cli.Command)
	pages = func(path []string, commands []*cli.Command) {
		for _, c := range commands {
			if c.Hidden {
				continue
			}
			args := append(slices.Clone(path), c.Name)
			text := helpPage(t, args)
			if !regexp.MustCompile(`(?m)^Examples?:\n  `).MatchString(text) && len(c.Subcommands) == 0 {
				t.Errorf("%v: no example", args)
			}
			for _, f := range c.Flags {
				doc := f.(cli.DocGenerationFlag)
				if doc.TakesValue() && strings.Count(doc.GetUsage(), "`") != 2 {
					t.Errorf("%v: the value of %s has no name", args, f.Names()[0])
				}
			}
			pages(args, c.Subcommands)
		}
	}
	pages(nil, testProgram().app().Commands)

	text := helpPage(t, nil)
	for _, c := range testProgram().app().Commands {
		if n := strings.Count(text, "\n  "+c.Name+" "); !c.Hidden && n != 1 {
			t.Errorf("%s is in %d groups:\n%s", c.Name, n, text)
		}
	}
	last := 0
	for _, title := range []string{"set up", "every day", "when something is wrong", "for scripts", "for the agent"} {
		at := strings.Index(text, "\n\n"+title+":\n")
		if at < last {
			t.Errorf("%q is missing or comes too early:\n%s", title, text)
		}
		last = at
	}
}

// TestReferenceListsEveryCommand checks that the table of docs/reference.md has every command.
func TestReferenceListsEveryCommand(t *testing.T) {
	reference := readFile(t, "../docs/reference.md")
	for _, c := range testProgram().app().Commands {
		named := regexp.MustCompile(`(?m)^\|.*` + "`" + c.Name + "[` ]")
		if !c.Hidden && !named.MatchString(reference) {
			t.Errorf("the table of docs/reference.md does not have the command %s", c.Name)
		}
	}
}

// helpPage returns the help page of a command, and checks its width.
func helpPage(t *testing.T, args []string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	code := Run(t.Context(), Build{}, append([]string{name, "help"}, args...), nil, &out, &errOut, nil)
	if code != exitDone || errOut.Len() > 0 {
		t.Errorf("help %v: exit %d, %s", args, code, &errOut)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("help %v: %d columns, want at most 80: %s", args, n, line)
		}
	}
	return out.String()
}
