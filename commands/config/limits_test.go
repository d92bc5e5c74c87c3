package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/limittest"
)

// apiConfig is a configuration of the built-in loop.
const apiConfig = toolServers + localModel

// load wires a configuration. The schema that it names exists.
func load(t *testing.T, text string) (*cycle.Agent, error) {
	t.Helper()
	return newTestLoader().Load(writeConfigWithSchema(t, text))
}

// writeConfigWithSchema is writeConfig with a file schema.json next to it.
func writeConfigWithSchema(t *testing.T, text string) string {
	t.Helper()
	path := writeConfig(t, text)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "schema.json"), []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// accepts returns a function that reports whether a configuration with a number is valid.
func accepts(text string) func(*testing.T, int64) bool {
	return func(t *testing.T, n int64) bool {
		_, err := load(t, fmt.Sprintf(text, n))
		return err == nil
	}
}

// refuses is the opposite of accepts.
func refuses(text string) func(*testing.T, int64) bool {
	return func(t *testing.T, n int64) bool { return !accepts(text)(t, n) }
}

// tables returns a configuration with so many tables.
func tables(config, table string) func(*testing.T, int64) bool {
	return func(t *testing.T, n int64) bool {
		var all strings.Builder
		all.WriteString(config)
		for i := range n {
			fmt.Fprintf(&all, table, i)
		}
		_, err := load(t, all.String())
		return err == nil
	}
}

const (
	aServer = "[tools.%s]\nmcp = { url = \"https://a.example\" }\n"
	aTool   = "[tools.mine]\ncommand = [\"x\"]\ndescription = \"x\"\nschema = \"schema.json\"\n"
	aHook   = "[[hook]]\non = [\"*\"]\ncommand = [\"./x\"]\n"
	aPrompt = "[[prompt]]\nat = \"0 8 * * *\"\ntext = \"go\"\n"
)

func TestLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	limittest.Run(t, []limittest.Limit{
		{Const: "maxName", Max: 60, Within: func(t *testing.T, n int64) bool {
			_, err := load(t, smallConfig+smallMail+"[replies]\nname = \""+x(n)+"\"\n")
			return err == nil
		}},
		// Settings.
		{Const: "maxBudget", Max: 1_000_000, Within: accepts(smallConfig + "[budget]\nday_usd = %d\n")},
		{Const: "maxPrice", Max: 10_000, Within: accepts(smallConfig + "[prices.m]\ninput = 1\noutput = %d\n")},
		{Const: "maxMultiplier", Max: 100, Within: accepts(smallConfig + "[budget]\nmultiplier = %d\n")},
		{Const: "maxMails", Max: 100_000, Within: func(t *testing.T, n int64) bool {
			mails := accepts(smallConfig+"[budget]\nmails_an_hour = %d\n")(t, n)
			if events := accepts(smallConfig+"[budget]\nevents_an_hour = %d\n")(t, n); events != mails {
				t.Errorf("%d mails an hour: %v, and events: %v", n, mails, events)
			}
			return mails
		}},
		limittest.Duration("maxCollect", 5*time.Minute, 1, func(t *testing.T, d time.Duration) bool {
			_, err := load(t, fmt.Sprintf(smallConfig+"collect = \"%v\"\n", d))
			return err == nil
		}),
		{Const: "maxSelfTurns", Max: 1000, Within: accepts(smallConfig + "self_turns = %d\n")},
		{Const: "maxRecall", Max: 8 << 10, Within: accepts(smallConfig + "recall = %d\n")},
		{Const: "minWindow", Max: 4095, Within: func(t *testing.T, n int64) bool {
			refused := refuses(smallConfig+"context_window = %d\n")(t, n)
			if api := refuses(apiConfig+"max_output = 1\ncontext_window = %d\n")(t, n); api != refused {
				t.Errorf("%d tokens are too few for [api]: %v, and for [turn]: %v", n, api, refused)
			}
			return refused
		}},
		{Const: "minProcesses", Max: 15, Within: refuses(apiConfig + "[api.exec]\nprocesses = %d\n")},
		{Const: "minMemory", Max: 63, Within: refuses(apiConfig + "[api.exec]\nmemory = %d\n")},
		{Const: "minFileSize", Max: 0, Within: refuses(apiConfig + "[api.exec]\nfile_size = %d\n")},
		limittest.Duration("maxCatchUp", 366*24*time.Hour, 1, func(t *testing.T, d time.Duration) bool {
			_, err := load(t, fmt.Sprintf(smallConfig+aPrompt+"name = \"m\"\ncatch_up = \"%v\"\n", d))
			return err == nil
		}),
		limittest.Duration("defaultCatchUp", 24*time.Hour, 1, func(t *testing.T, d time.Duration) bool {
			return d <= mustLoad(t, smallConfig+aPrompt+"name = \"m\"\n").Policy.Prompts[0].CatchUp
		}),
		{Const: "maxPrompts", Max: 32, Within: tables(smallConfig, aPrompt+"name = \"p%d\"\n")},
		{Const: "maxHooks", Max: 16, Within: tables(smallConfig, aHook+"name = \"h%d\"\n")},
		{Const: "maxServers", Max: 16, Within: tables(apiConfig, fmt.Sprintf(aServer, "s%d"))},
		{Const: "maxServerName", Max: 32, Within: func(t *testing.T, n int64) bool {
			_, err := load(t, apiConfig+fmt.Sprintf(aServer, x(n)))
			return err == nil
		}},

		// Input.
		{Const: "maxSchema", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			path := writeFile(t, "schema.json", strings.Repeat(" ", int(n)-17)+`{"type":"object"}`)
			_, err := load(t, apiConfig+strings.Replace(aTool, "schema.json", path, 1))
			return err == nil
		}},
		{Const: "maxMail", Max: 64 << 20, Within: func(t *testing.T, n int64) bool {
			return n <= mustLoad(t, smallConfig+smallMail).Mail.Filter.MaxSize
		}},
		{Const: "maxSearchedBytes", Max: 1 << 20, Within: func(t *testing.T, n int64) bool {
			return HandleIn(writeConfig(t, smallConfig+strings.Repeat("#", int(n)-len(smallConfig)))) == "goulard3120"
		}},
		{Const: "MaxSecret", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			path := writeFile(t, "secret", x(n))
			secret, err := readSecretFile(path)
			_, printed := newTestLoader().readSecretCommand(t.Context(), &Config{}, []string{"/bin/cat", path})
			if (printed == nil) != (err == nil) || err == nil && secret != x(n) {
				t.Errorf("%d bytes: of a file %v, of a command %v", n, err, printed)
			}
			return err == nil
		}},
		limittest.Duration("secretTimeout", 10*time.Second, 2, func(t *testing.T, d time.Duration) (inTime bool) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := withSecretTimeout(context.Background())
				defer cancel()
				time.Sleep(d - 1)
				inTime = ctx.Err() == nil
			})
			return inTime
		}),
	})
}

// TestSettingLimits tries each other setting that has a range at both ends of it.
func TestSettingLimits(t *testing.T) {
	name := func(n int) string { return strings.Repeat("n", n) }
	const peers = "[mesh]\nurl = \"http://127.0.0.1:1\"\npeers = [\"bob1\"]\n"
	for _, setting := range []struct {
		config    string // with %v
		good, bad []any
	}{
		{smallConfig + "max_attempts = %v\n", []any{1, 1000}, []any{0, -1}},
		{smallConfig + "self_turns = %v\n", []any{0}, []any{-1}},
		{smallConfig + "recall = %v\n", []any{1}, []any{0}},
		{smallConfig + "context_window = %v\n", []any{0}, []any{-1, 1}},
		{smallConfig + "collect = %q\n", []any{"0s", "1ns"}, []any{"-1ns", ""}},
		{smallConfig + "timeout = %q\n", []any{"1ns", "36500d"}, []any{"0s", "0d", "36501d"}},
		{smallConfig + "silence = %q\n", []any{"", "1ns"}, []any{"0s"}},
		{smallConfig + "[timing]\nidle_interval = %q\n", []any{"1m", "24h"}, []any{"59s", "48h"}},
		{smallConfig + "[timing]\nengaged_interval = %q\n", []any{"1m", "24h"}, []any{"59s", "48h"}},
		{smallConfig + "[budget]\ncredit_usd = %v\n", []any{0, 1_000_000}, []any{-0.000001, 1_000_000.01}},
		{smallConfig + "[budget]\nturn_usd = %v\n", []any{0.000001, 1_000_000}, []any{0, -1, 1_000_000.01}},
		{smallConfig + "[budget]\nday_usd = %v\n", []any{0.000001}, []any{0}},
		{smallConfig + "[budget]\nlow_usd = %v\n", []any{0.1, 1_000_000}, []any{0.09, 1_000_000.01}},
		{smallConfig + "[budget]\ncritical_usd = %v\n", []any{0, 0.5}, []any{-0.01, 0.51}},
		{smallConfig + "[budget]\nmultiplier = %v\n", []any{0.001}, []any{0, -1, 100.001}},
		{smallConfig + "[budget]\nmails_an_hour = %v\n", []any{0}, []any{-1}},
		{smallConfig + "[budget]\nevents_an_hour = %v\n", []any{0}, []any{-1}},
		{smallConfig + "[prices.m]\ninput = %v\noutput = 1\n", []any{0, 10_000}, []any{-0.01, 10_000.01}},
		{smallConfig + "[prices.m]\ninput = 1\noutput = 1\ncache_read = %v\n", []any{0, 10_000}, []any{-0.01, 10_000.01}},
		{smallConfig + "[prices.m]\ninput = 1\noutput = 1\ncache_write = %v\n", []any{0, 10_000}, []any{-0.01, 10_000.01}},
		{smallConfig + aHook + "timeout = %q\n", []any{"1s", "1m"}, []any{"999ms", "1m1ms"}},
		{smallConfig + aHook + "name = %q\n", []any{name(1), name(32)}, []any{name(33)}},
		{smallConfig + "[[hook]]\non = [\"*\"]\nurl = \"https://a.example\"\nheaders = { %s = \"x\" }\n", []any{name(1), name(64)}, []any{name(65)}},
		{smallConfig + "[[hook]]\non = [\"*\"]\nurl = \"https://a.example:%v/\"\n", []any{1, 65535}, []any{0, 65536}},
		{smallConfig + aPrompt + "name = %q\n", []any{name(1), name(32)}, []any{"", name(33)}},
		{smallConfig + "[[prompt]]\nname = \"m\"\nat = \"0 8 * * *\"\ntext = %q\n", []any{name(64 << 10)}, []any{name(64<<10 + 1)}},
		{smallConfig + aPrompt + "name = \"m\"\ncatch_up = %q\n", []any{"0s", "366d"}, []any{"367d"}},
		{apiConfig + "max_output = %v\n", []any{1, 100_000}, []any{0, 100_001}}, // half of the default window
		{apiConfig + "max_calls = %v\n", []any{1}, []any{0}},
		{apiConfig + "max_tools = %v\n", []any{1}, []any{0}},
		{apiConfig + "rest = %q\n", []any{"", "24h"}, []any{"24h1ns"}},
		{apiConfig + "[tools.files]\nmcp = { url = \"https://a.example\" }\ntimeout = %q\n", []any{"1s", "1h"}, []any{"999ms", "1h1ms"}},
		{apiConfig + "[tools.files]\nmcp = { url = \"https://a.example:%v\" }\n", []any{1, 65535}, []any{0, 65536}},
		{apiConfig + peers + aTool + "after_execution = \"suspend\"\ndeadline = %q\n", []any{"1ns", "24h"}, []any{"0s", "24h1ns"}},
	} {
		for _, value := range setting.good {
			if _, err := load(t, fmt.Sprintf(setting.config, value)); err != nil {
				t.Errorf("%.20v is refused: %v", value, err)
			}
		}
		for _, value := range setting.bad {
			text := fmt.Sprintf(setting.config, value)
			if _, err := load(t, text); err == nil {
				t.Errorf("%.20v is accepted: %.300s", value, text[len(text)-min(len(text), 80):])
			}
		}
	}
}
