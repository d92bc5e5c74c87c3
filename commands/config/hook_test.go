package config

import (
	"testing"
)

// TestHookErrors checks that each error of a hook names the line, the key and the hook.
func TestHookErrors(t *testing.T) {
	const program = "command = [\"x\"]\n"
	const first = smallConfig + "[[hook]]\non = [\"*\"]\n" + program
	for _, test := range []struct{ hook, want, hint string }{
		{"on = [\"tsk\"]\n" + program, `:10: hook.on: \(hook 2\) unknown event "tsk"$`, "docs/events.md"},
		{"on = [\"task\", \"task.fail\"]\n" + program, `:10: hook.on: .*unknown event "task.fail"$`, "did you mean task.failed?"},
		{"on = []\n" + program, `:10: hook.on: .*is missing$`, "blocker"},
		{program, `:9: hook.on: .*is missing$`, "blocker"},
		{"on = \"task\"\n", `:10: hook.on: must be an array, not a string$`, ""},
		{"on = [\"task\"]\n", `:9: hook.command: .*is missing$`, "url = "},
		{"on = [\"task\"]\ncommand = [\"\"]\n", `:11: hook.command: .*is missing$`, "url = "},
		{"on = [\"task\"]\ncomand = [\"x\"]\n", `:11: hook.comand: unknown key$`, "did you mean command?"},
		{"on = [\"task\"]\nurl = \"https://a\"\n" + program, `:11: hook.url: .*cannot both be set$`, "use two hooks"},
		{"on = [\"task\"]\nurl = \"ftp://a\"\n", `:11: hook.url: .*is not an http or https URL$`, "https://"},
		{"on = [\"task\"]\nurl = \"https://a:99999/\"\n", `:11: hook.url: .*has an invalid port, 99999$`, "65535"},
		{"on = [\"task\"]\nurl = \"https://u:p@a/\"\n", `:11: hook.url: .*must not contain a password$`, "token_file"},
		{"on = [\"task\"]\nurl = \"http://a/\"\n", `:11: hook.url: .*would send events unencrypted to "http://a/"$`, "use https"},
		{"on = [\"task\"]\nurl = \"http://a/\"\ninsecure = true\ntoken_file = \"t\"\n", `:11: hook.url: .*would send events unencrypted to "http://a/"$`, "without a token"},
		{"on = [\"task\"]\nurl = \"https://{token}/\"\ntoken_file = \"t\"\n", `:11: hook.url: .*is not an http or https URL$`, ""},
		{"on = [\"task\"]\nurl = \"https://a/{token}\"\n", `:11: hook.url: .*no token is set$`, "token_file"},
		{"on = [\"task\"]\nurl = \"https://a/\"\nheaders = { Authorization = \"x\" }\n", `:12: hook.headers: .*cannot be set$`, ""},
		{"on = [\"task\"]\ntoken_file = \"t\"\n" + program, `:11: hook.token_file: .*can only be used with url$`, "remove it"},
		{"on = [\"task\"]\nname = \"a b\"\n" + program, `:11: hook.name: .*is not a valid name$`, ""},
		{"on = [\"task\"]\nname = \"hook-1\"\n" + program, `:11: hook.name: .*two hooks are named "hook-1"$`, "its own name"},
		{"on = [\"task\"]\ntimeout = \"2m\"\n" + program, `:11: hook.timeout: .*between 1s and 1m0s$`, ""},
		{"on = [\"task\"]\nbody = \"{{.Nope}}\"\n" + program, `:11: hook.body: .*can't evaluate field Nope`, "{{.Text}}"},
	} {
		wantError(t, first+"[[hook]]\n"+test.hook, test.want, test.hint)
	}
}
