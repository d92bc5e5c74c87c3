package config

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// TestWrongConfig checks that each error names the file, the line and the key.
func TestWrongConfig(t *testing.T) {
	const agent = "[agent]\nhandle = \"a\"\noperator = [\"you@example.com\"]\n"
	const turn = agent + "[turn]\nrunner = \"none\"\n"
	const bare = agent + "[turn]\nrunner = \"api\"\n"
	const loop = bare + "workdir = \"desk\"\n"
	const onMesh = turn + "[mesh]\nurl = \"http://localhost:8801\"\n"
	const model = "[api]\nprovider = \"openai\"\nmodel = \"gpt-4o\"\n"
	const local = model + "base_url = \"http://127.0.0.1:11434/v1\"\n"
	mailWith := func(more string) string { return turn + smallMail + more }
	withoutPassword := func(text string) string { return strings.Replace(text, "password_file", "# password_file", 1) }
	oauthWith := func(lines string) string {
		return withoutPassword(mailWith("auth = \"oauthbearer\"\n[mail.imap.oauth2]\n" + lines))
	}
	trustWith := func(lines string) string { return turn + strings.Replace(smallMail, `require = "from"`, lines, 1) }
	for _, test := range []struct{ name, text, want, hint string }{
		{"syntax", "[agent]\nhandle = goulard\n", `:2: agent.handle: `, ""},
		{"unknown section", turn + "[tiimng]\n", `:6: tiimng: unknown section`, "did you mean timing?"},
		{"a key above all sections", "handel = \"a\"\n" + turn, `:1: handel: unknown key outside any section`, "did you mean handle in [agent]?"},
		{"a strange key above all sections", "zzzzzzzz = 1\n" + turn, `:1: zzzzzzzz: unknown key outside any section`, "see agent.toml.example"},
		{"unknown key", turn + "# x\n[timing]\nprep_timout = \"5m\"\n", `:8: timing.prep_timout: unknown key`, "did you mean prep_timeout?"},
		{"unknown key below", mailWith("pasword_file = \"x\"\n"), `:13: mail.imap.pasword_file: unknown key`, "did you mean password_file?"},
		{"key in other case", "[agent]\nHandle = \"a\"\n", `:2: agent.Handle: unknown key`, "did you mean handle?"},
		{"unknown key in a line", turn + "agent.kep = 3\n", `turn.agent`, ""},
		{"bare number", turn + "[timing]\nidle_interval = 30\n", `:7: timing.idle_interval: "30" is not a duration such as "90s"`, ""},
		{"number for a string", "[agent]\nhandle = 3120\n", `:2: agent.handle: must be a string, not an integer$`, ""},
		{"string for an array", "[agent]\nhandle = \"a\"\noperator = \"you@example.com\"\n", `:3: agent.operator: must be an array, not a string$`, ""},
		{"numbers in an array", "[agent]\nhandle = \"a\"\noperator = [\n 1,\n 2]\n", `:3: agent.operator: must be a string, not an integer$`, ""},
		{"string for a number", turn + "max_attempts = \"3\"\n", `:6: turn.max_attempts: must be an integer, not a string$`, ""},
		{"number in env", turn + "env = { A = \"x\", B = 3 }\n", `:6: turn.env.B: must be a string, not an integer$`, ""},
		{"string for a section", "mail = \"x\"\n", `:1: mail: must be a table, not a string$`, ""},
		{"array of sections", "[[agent]]\n", `:1: agent: must be a table, not an array of tables$`, ""},
		{"string for a boolean", turn + "[replies]\nnotices = \"no\"\n", `:7: replies.notices: must be true or false, not a string$`, ""},
		{"no unit", turn + "timeout = \"30\"\n", `:6: turn.timeout: "30" is not a duration`, ""},
		{"zero duration", turn + "timeout = \"0s\"\n", `:6: turn.timeout: "0s" must be longer than zero`, ""},
		{"after a long string", turn + "workdir = \"\"\"\ntimeout = 3\n\"\"\"\ntimeout = 4\n", `:9: turn.timeout: `, ""},
		{"no handle", "[agent]\noperator = []\n", `: agent.handle: is missing`, ""},
		{"callsign for handle", "[agent]\nhandle = \"@goulard\"\n", `:2: agent.handle: "@goulard" is not a valid handle`, `without the @`},
		{"long handle", "[agent]\nhandle = \"" + strings.Repeat("a", 33) + "\"\n", `:2: agent.handle: `, ""},
		{"handle is a path", "[agent]\nhandle = \"../x\"\n", `:2: agent.handle: `, ""},
		{"interval that cron cannot express", turn + "[timing]\nidle_interval = \"45m\"\n", `:7: timing.idle_interval: interval 45m0s does not fit a crontab line: use 1, 2, `, ""},
		{"no operator", strings.Replace(mailWith(""), "\"you@example.com\"", "", 1), `:3: agent.operator: is missing`, `your own email address`},
		{"operator is not an address", strings.Replace(mailWith(""), "you@example.com", "you", 1), `:3: agent.operator: "you" is not an email address`, ""},
		{"operator is the agent", strings.Replace(mailWith(""), "you@example.com", "Agent@gmail.com", 1), `:3: agent.operator: .* is the agent's own address`, `a mailbox of its own`},
		{"unknown trust.require", strings.Replace(mailWith(""), `"from"`, `"spf"`, 1), `:7: trust.require: "spf" is not one of: dmarc, challenge, from`, ""},
		{"trust by default", turn + strings.TrimPrefix(smallMail, "[trust]\nrequire = \"from\"\n"), `toml: trust.authserv_id: is missing`, `set authserv_id = "mx.google.com"`},
		{"trust by default, not Gmail", turn + strings.Replace(strings.TrimPrefix(smallMail, "[trust]\nrequire = \"from\"\n"), "gmail.com:993", "example.com:993", 1), `toml: trust.authserv_id: is missing`, `verify = "dkim"`},
		{"authserv_id with a result", trustWith("authserv_id = \"mx.example.com; dmarc=pass\""), `:7: trust.authserv_id: .* is not a server name`, `before the first semicolon`},
		{"unknown trust.verify", trustWith("verify = \"gpg\""), `:7: trust.verify: "gpg" is not one of: server, dkim`, ""},
		{"unknown same_provider", trustWith("authserv_id = \"mx.google.com\"\nsame_provider = \"yes\""), `:8: trust.same_provider: "yes" is not valid`, ""},
		{"authserv_id with dkim", trustWith("verify = \"dkim\"\nauthserv_id = \"mx.google.com\""), `:8: trust.authserv_id: can only be used with verify = "server"`, `remove it`},
		{"same_provider with dkim", trustWith("verify = \"dkim\"\nsame_provider = \"auth\""), `:8: trust.same_provider: can only be used with verify = "server"`, `remove it`},
		{"allow_spf with dkim", trustWith("verify = \"dkim\"\nallow_spf = true"), `:8: trust.allow_spf: can only be used with verify = "server"`, `remove it`},
		{"alias", strings.Replace(mailWith(""), "[mail]\n", "[mail]\naliases = [\"x\"]\n", 1), `: mail.aliases: "x" is not an email address`, ""},
		{"alias of the operator", strings.Replace(mailWith(""), "[mail]\n", "[mail]\naliases = [\"You@example.com\"]\n", 1), `: mail.aliases: You@example.com is one of your own addresses`, `agent's mailbox`},
		{"resolver", trustWith("verify = \"dkim\"\nresolver = \"127.0.0.1\""), `:8: trust.resolver: "127.0.0.1" is not a host and port`, `127.0.0.1:53`},
		{"resolver with server", trustWith("authserv_id = \"mx.google.com\"\nresolver = \"127.0.0.1:53\""), `:8: trust.resolver: can only be used with verify = "dkim"`, ""},
		{"mesh trust", turn + "[trust]\nmesh = \"all\"\n", `:7: trust.mesh: "all" is not one of: token, open`, ""},
		{"no port", strings.Replace(mailWith(""), ":993", "", 1), `:11: mail.imap.host: "imap.gmail.com" is not a host and port`, `use HOST:PORT, such as "imap.example.com:993"`},
		{"no host", strings.Replace(mailWith(""), "host =", "# host =", 1), `toml: mail.imap.host: is missing`, ""},
		{"no smtp host", strings.Replace(mailWith(""), "gmail.com:993", "example.com:993", 1), `toml: mail.smtp.host: is missing`, ""},
		{"no secret", strings.Replace(mailWith(""), "password_file", "# password_file", 1), `:10: mail.imap: 0 of password_file, `, ""},
		{"two secrets", mailWith("password_env = \"X\"\n"), `:10: mail.imap: 2 of password_file, `, ""},
		{"password and token", mailWith("auth = \"xoauth2\"\ntoken_command = [\"x\"]\n"), `:10: mail.imap: 2 of password_file, `, ""},
		{"password and oauth2", mailWith("auth = \"xoauth2\"\n[mail.imap.oauth2]\nprovider = \"google\"\n"), `:10: mail.imap: 2 of password_file, .*and \[mail.imap.oauth2\]`, ""},
		{"token for a password", withoutPassword(mailWith("token_command = [\"x\"]\n")), `:13: mail.imap.token_command: requires auth = "xoauth2"`, `password_command`},
		{"oauth2 for a password", withoutPassword(mailWith("[mail.imap.oauth2]\nprovider = \"google\"\n")), `:13: mail.imap.oauth2: requires auth = "xoauth2"`, `set auth`},
		{"oauth2 unknown key", oauthWith("provider = \"google\"\nclientid = \"x\"\n"), `:16: mail.imap.oauth2.clientid: unknown key`, "did you mean client_id?"},
		{"oauth2 no id", oauthWith("provider = \"google\"\n"), `toml: mail.imap.oauth2.client_id: is missing`, ""},
		{"oauth2 no token", oauthWith("provider = \"google\"\nclient_id = \"x\"\n"), `toml: mail.imap.oauth2.refresh_token_file: is missing`, ""},
		{"oauth2 no endpoint", oauthWith("client_id = \"x\"\n"), `toml: mail.imap.oauth2.token_url: is missing`, ""},
		{"oauth2 provider", oauthWith("provider = \"gmail\"\n"), `:15: mail.imap.oauth2.provider: "gmail" is not one of: google, microsoft`, ""},
		{"token URL without TLS", oauthWith("client_id = \"x\"\ntoken_url = \"http://example.com/token\"\n"), `:16: mail.imap.oauth2.token_url: .*not an https URL`, ""},
		{"oauth2 two secrets", oauthWith("provider = \"google\"\nclient_id = \"x\"\nrefresh_token_file = \"r\"\nclient_secret_env = \"X\"\nclient_secret_file = \"x\"\n"), `:14: mail.imap.oauth2: 2 of client_secret_file`, ""},
		{"smtp by password only", strings.Replace(oauthWith("provider = \"google\"\nclient_id = \"x\"\nrefresh_token_file = \"r\"\n"), "[mail.imap.oauth2]", "[mail.smtp]\nauth = \"plain\"\n[mail.imap.oauth2]", 1), `mail.smtp.oauth2: requires auth = "xoauth2"`, `set auth in [mail.smtp]`},
		{"password unencrypted", mailWith("tls = \"none\"\n"), `:13: mail.imap.tls: "none" would send the password to imap.gmail.com unencrypted`, `starttls`},
		{"tls", mailWith("tls = \"ssl\"\n"), `:13: mail.imap.tls: "ssl" is not one of: implicit, starttls, none`, ""},
		{"auth", mailWith("auth = \"login\"\n"), `:13: mail.imap.auth: `, ""},
		{"mesh url", turn + "[mesh]\nurl = \"127.0.0.1:8801\"\n", `:7: mesh.url: `, ""},
		{"mesh token unencrypted", turn + "[mesh]\nurl = \"http://mesh.example.com\"\n", `:7: mesh.url: .*unencrypted`, `use https`},
		{"peer", turn + "[mesh]\nurl = \"http://localhost:8801\"\npeers = [\"@x\"]\n", `:8: mesh.peers: "@x" is not a valid handle`, ""},
		{"unknown mesh key", onMesh + "[mesh.keys_in]\ntext = \"body\"\n", `:9: mesh.keys_in.text: unknown key: use one of .*agents, .*message`, "OUR_KEY"},
		{"mesh key that is taken", onMesh + "[mesh.keys_out]\nmessage = \"From\"\n", `:9: mesh.keys_out.message: "From" is already the name of from`, "OUR_KEY"},
		{"mesh key with a space", onMesh + "[mesh.keys_out]\nmessage = \"a b\"\n", `:9: mesh.keys_out.message: "a b" must have`, "OUR_KEY"},
		{"proven renamed", onMesh + "[mesh.keys_in]\nproven = \"verified\"\n", `:9: mesh.keys_in.proven: proven cannot be renamed`, "OUR_KEY"},
		{"another member as proven", onMesh + "[mesh.keys_in]\nkind = \"Proven\"\n", `:9: mesh.keys_in.kind: proven cannot be renamed`, "OUR_KEY"},
		{"proof of our own", onMesh + "[mesh.keys_out]\nproven = \"x\"\n", `:9: mesh.keys_out.proven: unknown key`, "OUR_KEY"},
		{"two tokens", turn + "[mesh]\nurl = \"http://localhost:8801\"\ntoken_env = \"A\"\ntoken_file = \"b\"\n", `:6: mesh: 2 of token_file`, ""},
		{"no command", agent + "[turn]\ntimeout = \"3m\"\n", `toml: turn.command: is missing`, `runner = "none"`},
		{"runner", agent + "[turn]\nrunner = \"gpt\"\n", `:5: turn.runner: "gpt" is not one of: exec, claude, codex, gemini, acp, api, none`, ""},
		{"no provider", loop, `toml: api.provider: is missing`, ""},
		{"provider", loop + "[api]\nprovider = \"google\"\n", `:8: api.provider: "google" is not one of: anthropic, openai`, ""},
		{"no model", loop + "[api]\nprovider = \"openai\"\n", `toml: api.model: is missing`, ""},
		{"no key", loop + model, `toml: api.key_file: is missing`, ""},
		{"two keys", loop + model + "key_env = \"A\"\nkey_file = \"b\"\n", `:7: api: 2 of key_file, key_env and key_command are set`, ""},
		{"key unencrypted", loop + model + "key_env = \"A\"\nbase_url = \"http://models.example.com/v1\"\n", `:11: api.base_url: would send the API key unencrypted`, `use https`},
		{"base URL", loop + model + "base_url = \"models.example.com\"\n", `:10: api.base_url: "models.example.com" is not a valid base URL`, ""},
		{"window", loop + model + "base_url = \"http://127.0.0.1:11434/v1\"\ncontext_window = 0\n", `:11: api.context_window: must be at least 4096`, ""},
		{"output", loop + model + "base_url = \"http://127.0.0.1:11434/v1\"\ncontext_window = 8192\n", `toml: api.max_output: must be at most half`, ""},
		{"vision", loop + model + "base_url = \"http://127.0.0.1:11434/v1\"\nvision = [\"image\", \"sound\"]\n", `:11: api.vision: "sound" is not one of: image, pdf`, ""},
		{"vision of a PDF", loop + model + "base_url = \"http://127.0.0.1:11434/v1\"\nvision = [\"pdf\"]\n", `:11: api.vision: the chat completions API does not accept PDFs`, `remove "pdf"`},
		{"no workdir", bare + local, `toml: turn.workdir: is missing`, "~/agents/goulard"},
		{"workdir with the configuration", bare + "workdir = \".\"\n" + local, `:6: turn.workdir: contains .*/agent.toml`, ""},
		{"workdir with a tool's program", loop + local + "[tools.deploy]\ncommand = [\"desk/deploy.sh\"]\ndescription = \"x\"\nschema = \"deploy.json\"\n", `:6: turn.workdir: contains .*/desk/deploy.sh`, ""},
		{"workdir with a tool's schema", loop + local + "[tools.deploy]\ncommand = [\"deploy\"]\ndescription = \"x\"\nschema = \"desk/deploy.json\"\n", `:6: turn.workdir: contains .*/desk/deploy.json`, ""},
		{"workdir with a program for the key", loop + model + "key_command = [\"desk/key.sh\"]\n", `:6: turn.workdir: contains .*/desk/key.sh`, ""},
		{"workdir with the prompts", loop + "prompts = \"desk/prompts\"\n" + local, `:6: turn.workdir: contains .*/desk/prompts`, ""},
		{"workdir with the key", loop + model + "key_file = \"desk/key\"\n", `:6: turn.workdir: contains .*/desk/key`, ""},
		{"exec without processes", loop + local + "[api.exec]\nprocesses = 1\n", `: api.exec.processes: must be at least 16`, ""},
		{"exec without memory", loop + local + "[api.exec]\nmemory = 0\n", `: api.exec.memory: must be at least 64`, ""},
		{"exec without files", loop + local + "[api.exec]\nfile_size = -1\n", `: api.exec.file_size: must be at least 1`, ""},
		{"exec with a bare time", loop + local + "[api.exec]\ncpu = 5\n", `api.exec.cpu`, ""},
		{"exec of everything", loop + local + "[api.exec]\nread = [\"/\"]\n", `: api.exec.read: / contains more than`, "name the folder of a tool"},
		{"exec of /etc", loop + local + "[api.exec]\nread = [\"/usr/../etc/\"]\n", `: api.exec.read: /etc contains more than`, ""},
		{"exec of processes", loop + local + "[api.exec]\nread = [\"/proc/1\"]\n", `: api.exec.read: /proc/1 belongs to the machine`, ""},
		{"exec of the configuration", loop + local + "[api.exec]\nread = [\".\"]\n", `: api.exec.read: .* would expose .*/agent.toml`, "only the files that programs need"},
		{"exec of the key", loop + model + "key_file = \"keys/key\"\n[api.exec]\nread = [\"keys\"]\n", `: api.exec.read: .* would expose .*/keys/key`, ""},
		{"exec of the state", loop + local + "[api.exec]\nread = [\"~/.local/state/agentstateloop/goulard3120/messages\"]\n", `: api.exec.read: .* would expose .*/agentstateloop`, ""},
		{"exec of all states", loop + local + "[api.exec]\nread = [\"~/.local\"]\n", `: api.exec.read: .* would expose .*/agentstateloop`, ""},
		{"command with runner api", agent + "[turn]\nrunner = \"api\"\ncommand = [\"x\"]\n", `:6: turn.command: has no effect`, `remove it`},
		{"low_command of another runner", agent + "[turn]\nrunner = \"claude\"\nlow_command = [\"x\"]\n", `:6: turn.low_command: can only be used with runner = "exec"`, "low_args"},
		{"low_args with runner api", agent + "[turn]\nrunner = \"api\"\nlow_args = [\"x\"]\n", `:6: turn.low_args: has no effect with runner = "api"`, "low_model"},
		{"low_args with low_command", agent + "[turn]\nrunner = \"exec\"\ncommand = [\"x\"]\nlow_command = [\"x\"]\nlow_args = [\"y\"]\n", `:8: turn.low_args: low_command and low_args cannot both be set`, "keep one"},
		{"runner acp without a command", agent + "[turn]\nrunner = \"acp\"\n", `turn.command`, "gemini"},
		{"low_args and low_command with runner acp", agent + "[turn]\nrunner = \"acp\"\ncommand = [\"x\"]\nlow_command = [\"x\"]\nlow_args = [\"y\"]\n", `:8: turn.low_args: low_command and low_args cannot both be set`, "keep one"},
		{"turn.acp of another runner", agent + "[turn]\nrunner = \"claude\"\n[turn.acp]\npeer = [\"read\"]\n", `:6: turn.acp: can only be used with runner = "acp"`, "[turn.permissions]"},
		{"unknown kind of tools", agent + "[turn]\nrunner = \"acp\"\ncommand = [\"x\"]\n[turn.acp]\noperator = [\"read\", \"exceute\"]\n", `:8: turn.acp.operator: "exceute" is not a tool kind`, "did you mean execute?"},
		{"kind unlike any", agent + "[turn]\nrunner = \"acp\"\ncommand = [\"x\"]\n[turn.acp]\nself = [\"*\"]\n", `:8: turn.acp.self: "\*" is not a tool kind`, "switch_mode, other"},
		{"unknown cause", agent + "[turn]\nrunner = \"acp\"\ncommand = [\"x\"]\n[turn.acp]\nanybody = [\"read\"]\n", `:8: turn.acp.anybody: unknown key`, ""},
		{"mcp with runner exec", agent + "[turn]\ncommand = [\"x\"]\nmcp = true\n", `:6: turn.mcp: can only be used with runner`, "as a stdio server"},
		{"mcp with runner api", agent + "[turn]\nrunner = \"api\"\nworkdir = \"w\"\nmcp = true\n" + "[api]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n", `: turn.mcp: can only be used with runner`, "[api.tools]"},
		{"mcp with runner none", agent + "[turn]\nrunner = \"none\"\nmcp = true\n", `:6: turn.mcp: can only be used with runner`, "inbox"},
		{"mcp is a word", agent + "[turn]\nrunner = \"claude\"\nmcp = \"yes\"\n", `:6: turn.mcp: must be`, ""},
		{"tool without a schema", loop + local + "[tools.a]\ncommand = [\"x\"]\ndescription = \"d\"\n", `:11: tools.a.schema|tools.a.schema: is missing`, ""},
		{"tool without a command", loop + local + "[tools.a]\ndescription = \"d\"\n", `tools.a.command: is missing`, ""},
		{"tool with a name of ours", loop + local + "[tools.exec]\ncommand = [\"x\"]\ndescription = \"d\"\nschema = \"schema.json\"\n", `tools.exec.*schema.json`, ""},
		{"attempts", turn + "max_attempts = 0\n", `:6: turn.max_attempts: must be at least 1`, ""},
		{"mode", turn + "[schedule]\nmode = \"cron\"\n", `:7: schedule.mode: "cron" is not one of: crontab, fixed, none`, ""},
		{"template", turn + "[replies]\nack = \"{{.Handle\"\n", `:7: replies.ack: .*unclosed action`, "{{.Handle}}, "},
		{"credit", turn + "[budget]\ncredit_usd = -1\n", `:7: budget.credit_usd: -1 is out of range`, ""},
		{"credit is a string", turn + "[budget]\ncredit_usd = \"5\"\n", `:7: budget.credit_usd: must be a number, not a string$`, ""},
		{"infinite credit", turn + "[budget]\ncredit_usd = inf\n", `:7: budget.credit_usd: \+Inf is out of range`, ""},
		{"absurd credit", turn + "[budget]\ncredit_usd = 1e9\n", `:7: budget.credit_usd: .*1000000 dollars`, ""},
		{"day limit of zero", turn + "[budget]\nday_usd = 0\n", `:7: budget.day_usd: a limit of 0 would allow no turns`, `remove it`},
		{"limit is NaN", turn + "[budget]\nturn_usd = nan\n", `:7: budget.turn_usd: NaN is out of range`, ""},
		{"tiers upside down", turn + "[budget]\ncritical_usd = 1\n", `:7: budget.critical_usd: .*is higher than low_usd`, ""},
		{"tiers upside down, too", turn + "[budget]\nlow_usd = 0.01\n", `:7: budget.low_usd: .*is higher than low_usd`, ""},
		{"mails", turn + "[budget]\nmails_an_hour = -1\n", `:7: budget.mails_an_hour: -1 is out of range`, "0 means no limit"},
		{"no number of mails", turn + "[budget]\nmails_an_hour = \"many\"\n", `:7: budget.mails_an_hour`, ""},
		{"half a mail", turn + "[budget]\nmails_an_hour = 1.5\n", `:7: budget.mails_an_hour`, ""},
		{"multiplier", turn + "[budget]\nmultiplier = 0\n", `:7: budget.multiplier: 0 is out of range`, ""},
		{"negative price", turn + "[prices.\"gpt-4.1\"]\ninput = 2\noutput = -8\n", `:8: prices."gpt-4.1".output: -8 is out of range`, ""},
		{"absurd price", turn + "[prices.x]\ninput = 1e9\noutput = 1\n", `:7: prices.x.input: .*0 to 10000`, ""},
		{"half a price", turn + "[prices.x]\ninput = 1\n", `:6: prices.x: output is missing`, `dollars per million tokens`},
		{"price is a string", turn + "[prices.x]\ninput = \"1\"\n", `:7: prices.x.input: must be a number, not a string$`, ""},
		{"unknown key of a price", turn + "[prices.x]\ninputs = 1\n", `:7: prices.x.inputs: unknown key`, "did you mean input?"},
		{"prices", turn + "[prices]\nx = 3\n", `:7: prices.x: must be a table, not an integer$`, ""},
		{"template's field", turn + "[replies]\nquiet_prep = \"{{.Name}}\"\n", `:7: replies.quiet_prep: .*can't evaluate field Name`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := writeConfig(t, test.text)
			_, err := newTestLoader().Load(path)
			wrong, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %v, want an Error", err)
			}
			if text := err.Error(); !strings.HasPrefix(text, path+":") || !regexp.MustCompile(test.want).MatchString(text) {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
			if !strings.Contains(wrong.Hint(), test.hint) {
				t.Errorf("hint %q, want %q", wrong.Hint(), test.hint)
			}
		})
	}
}
