package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestPromptErrors checks that each error of a prompt names the line, the key and the
// prompt.
func TestPromptErrors(t *testing.T) {
	const at, text = "at = \"0 8 * * 1-5\"\n", "text = \"go\"\n"
	const first = smallConfig + "[[prompt]]\nname = \"first\"\n" + at + text // lines 6 to 9
	for _, test := range []struct{ prompt, want, hint string }{
		{at + text, `:10: prompt.name: \(prompt 2\) is missing$`, "morning"},
		{"name = \"a b\"\n" + at + text, `:11: prompt.name: .*"a b" is not a valid name$`, "a-z"},
		{"name = \"first\"\n" + at + text, `:11: prompt.name: .*two prompts are named "first"$`, "its own name"},
		{"name = \"m\"\n" + text, `:10: prompt.at: .*is missing$`, "five crontab fields"},
		{"name = \"m\"\nat = \"0 25 * * *\"\n" + text, `:12: prompt.at: .*"0 25 \* \* \*": "25" is not a valid hour$`, "minute, hour"},
		{"name = \"m\"\nat = \"0 0 8 * * *\"\n" + text, `:12: prompt.at: .*six fields`, "minute, hour"},
		{"name = \"m\"\nat = \"0 8 30 2 *\"\n" + text, `:12: prompt.at: .*does not exist`, ""},
		{"name = \"m\"\nat = \"@every 5m\"\n" + text, `:12: prompt.at: .*@every is not a time of day`, ""},
		{"name = \"m\"\nat = \"TZ=UTC 0 8 * * *\"\n" + text, `:12: prompt.at: .*sets a time zone`, ""},
		{"name = \"m\"\nat = 8\n" + text, `:12: prompt.at: must be a string, not an integer$`, ""},
		{"name = \"m\"\n" + at, `:10: prompt.text: .*is missing$`, "file ="},
		{"name = \"m\"\n" + at + "text = \"  \"\n", `:13: prompt.text: .*is missing$`, "file ="},
		{"name = \"m\"\n" + at + text + "file = \"m.md\"\n", `:14: prompt.file: .*text and file cannot both be set$`, "keep one"},
		{"name = \"m\"\n" + at + "text = \"" + strings.Repeat("x", 65<<10) + "\"\n", `:13: prompt.text: .*longer than 64 KiB$`, ""},
		{"name = \"m\"\n" + at + text + "mail = \"never\"\n", `:14: prompt.mail: .*"never" is not one of: always, said$`, "said"},
		{"name = \"m\"\n" + at + text + "if = []\n", `:14: prompt.if: .*is empty$`, "changed.sh"},
		{"name = \"m\"\n" + at + text + "if = [\"\"]\n", `:14: prompt.if: .*is empty$`, "changed.sh"},
		{"name = \"m\"\n" + at + text + "if = \"./changed.sh\"\n", `:14: prompt.if: must be an array, not a string$`, ""},
		{"name = \"m\"\n" + at + text + "catch_up = \"400d\"\n", `:14: prompt.catch_up: .*at most 366 days$`, ""},
		{"name = \"m\"\n" + at + text + "catch_up = \"soon\"\n", `:14: prompt.catch_up: "soon" is not a`, ""},
		{"name = \"m\"\n" + at + text + "session = \"old\"\n", `:14: prompt.session: .*"old" is not one of: fresh$`, "fresh"},
		{"name = \"m\"\n" + at + text + "model = \"haiku\"\n", `:14: prompt.model: .*has no effect with runner = "exec"$`, "args"},
		{"name = \"m\"\n" + at + text + "catchup = \"1h\"\n", `:14: prompt.catchup: unknown key$`, "did you mean catch_up?"},
	} {
		wantError(t, first+"[[prompt]]\n"+test.prompt, test.want, test.hint)
	}
	var many strings.Builder
	for i := range 33 {
		fmt.Fprintf(&many, "[[prompt]]\nname = \"p%d\"\n%s%s", i, at, text)
	}
	wantError(t, smallConfig+many.String(), "33 prompts are set", "")
}

// TestPromptSettings checks the policy, the times and the rights of prompts.
func TestPromptSettings(t *testing.T) {
	const one = "[[prompt]]\nname = \"m\"\nat = \" 0  8 * * mon-fri \"\nfile = \"m.md\"\nif = [\"./changed.sh\", \"x\"]\nmail = \"said\"\ncatch_up = \"0s\"\n"
	a := mustLoad(t, smallConfig+one+"[[prompt]]\nname = \"n\"\nat = \"@daily\"\ntext = \"go\"\n")
	first, second := a.Policy.Prompts[0], a.Policy.Prompts[1]
	if first.At != "0 8 * * mon-fri" || first.CatchUp != 0 || !first.Asks || second.CatchUp != 24*time.Hour || second.Asks {
		t.Errorf("policies %+v", a.Policy.Prompts)
	}
	if next := first.Next(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), nil); !next.Equal(time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("the next time is %v", next)
	}
	m, n := a.ClockPrompts[0], a.ClockPrompts[1]
	if !strings.HasSuffix(m.File, "/m.md") || m.Kind != state.KindSaid || !strings.HasSuffix(m.If.Command[0], "/changed.sh") || m.If.Command[1] != "x" || n.Kind != state.KindAlways || n.If != nil {
		t.Errorf("prompts %+v, %+v", m, n)
	}

	const rights = "[turn.permissions]\noperator = [\"all\"]\n"
	for _, test := range []struct{ config, task, summary string }{
		{rights, "[all]", "[]"},
		{rights + one, "[all]", "[]"},
		{rights + "task = [\"t\"]\n", "[t]", "[t]"}, // as before prompts could be configured
		{rights + "task = [\"t\"]\n" + one, "[t]", "[]"},
		{rights + "task = [\"t\"]\nsummary = [\"s\"]\n" + one, "[t]", "[s]"},
		{rights + "task = []\n" + one, "[]", "[]"},
	} {
		a := mustLoad(t, smallConfig+test.config)
		if task, summary := fmt.Sprint(a.Rights.Task), fmt.Sprint(a.Rights.Summary); task != test.task || summary != test.summary {
			t.Errorf("%s\ntask %s and summary %s, want %s and %s", test.config, task, summary, test.task, test.summary)
		}
	}
}
