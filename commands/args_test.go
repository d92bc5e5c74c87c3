package commands

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"agentstateloop/commands/terminal"
)

func TestArrange(t *testing.T) {
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

func TestArrangeRefuses(t *testing.T) {
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
		{"@goulard @dorlange status", "a command is for one agent: not for @dorlange as well", "to see several agents, use `agentstateloop status --all`"},
		{"poll --config", "flag --config needs a value", "see agentstateloop poll --help"},
	} {
		_, err := arrange(app, strings.Fields(test.in))
		usage, ok := errors.AsType[*terminal.UsageError](err)
		if !ok || usage.Text != test.text || test.hint != "" && usage.Advice != test.hint {
			t.Errorf("arrange(%q): %+v; want %q, hint %q", test.in, err, test.text, test.hint)
		}
	}
}
