package commands

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// TestHelpPages checks every help page. It fits 80 columns, shows an example, and
// names the value of each flag that takes one. The commands stand in groups, each in
// one.
func TestHelpPages(t *testing.T) {
	var pages func(path []string, commands []*cli.Command)
	pages = func(path []string, commands []*cli.Command) {
		for _, c := range commands {
			if c.Hidden {
				continue
			}
			args := append(slices.Clone(path), c.Name)
			text := helpPage(t, args)
			if !strings.Contains(text, "Example:\n  ") && len(c.Subcommands) == 0 {
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
			t.Errorf("%s stands in %d groups:\n%s", c.Name, n, text)
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

// TestReadmeListsEveryCommand checks that the table of the README has every command.
func TestReadmeListsEveryCommand(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range testProgram().app().Commands {
		named := regexp.MustCompile(`(?m)^\|.*` + "`" + c.Name + "[` ]")
		if !c.Hidden && !named.Match(readme) {
			t.Errorf("the table of README.md does not have the command %s", c.Name)
		}
	}
}

// helpPage returns the help page of a command, and checks its width.
func helpPage(t *testing.T, args []string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	code := Run(t.Context(), append([]string{name, "help"}, args...), nil, &out, &errOut, nil)
	if code != 0 || errOut.Len() > 0 {
		t.Errorf("help %v: exit %d, %s", args, code, errOut.String())
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("help %v: %d columns, want at most 80: %s", args, n, line)
		}
	}
	return out.String()
}
