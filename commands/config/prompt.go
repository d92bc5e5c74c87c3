package config

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/cycle/hook"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// maxRecall limits turn.recall, in KiB. It is more than a million tokens.
const maxRecall = 8 << 10

// promptParts holds the settings of the agent's prompts.
type promptParts struct {
	folder  string       // of the user's templates; "" if not set
	recall  int          // bytes of earlier conversation for a new session
	window  int64        // context window in tokens; 0 if not set
	summary *turn.Config // the program that summarizes; nil for the agent itself
}

// wirePrompt wires the keys of [turn] about prompts. turns may be nil.
func wirePrompt(c *Config, turns *turn.Config) (promptParts, error) {
	t := c.File.Turn
	if t.Recall < 1 || t.Recall > maxRecall {
		return promptParts{}, c.Wrong("turn.recall", "must be between 1 and %d KiB", maxRecall)
	}
	if t.ContextWindow < 0 || t.ContextWindow > 0 && t.ContextWindow < minWindow {
		return promptParts{}, c.Wrong("turn.context_window", "must be at least %d tokens", minWindow)
	}
	parts := promptParts{
		recall: t.Recall << 10,
		window: int64(t.ContextWindow),
	}
	if t.Prompts != "" {
		parts.folder = c.Resolve(t.Prompts)
	}
	if len(t.Summary) > 0 && turns != nil {
		summary := *turns
		summary.Runner, summary.Command = turn.Exec, c.turnCommand(t.Summary)
		parts.summary = &summary
	}
	return parts, nil
}

const (
	maxPrompts = 32
	maxCatchUp = 366 * 24 * time.Hour

	defaultCatchUp = 24 * time.Hour
)

// promptSection is one prompt of the clock.
type promptSection struct {
	Name    string        `toml:"name"`
	At      string        `toml:"at"`
	Text    string        `toml:"text"`
	File    string        `toml:"file"`
	If      []string      `toml:"if"`
	Mail    string        `toml:"mail"`
	CatchUp *ZeroDuration `toml:"catch_up"`
	Session string        `toml:"session"`
	Args    []string      `toml:"args"`
	Model   string        `toml:"model"`
	Workdir string        `toml:"workdir"`
}

// SessionFresh is the value of session in a [[prompt]] that gives each of its turns a new session.
const SessionFresh = "fresh"

// wirePrompts wires the [[prompt]] tables: the prompts of the clock and their times.
func (c *Config) wirePrompts(self string) (all []cycle.ClockPrompt, policies []state.PromptPolicy, err error) {
	if n := len(c.File.Prompts); n > maxPrompts {
		return nil, nil, c.Wrong("prompt", "%d prompts are set, but the limit is %d", n, maxPrompts)
	}
	for i, section := range c.File.Prompts {
		prompt, policy, err := c.wirePromptAt(self, i, section)
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(all, func(other cycle.ClockPrompt) bool { return other.Name == prompt.Name }) {
			return nil, nil, c.wrongPrompt(i, "name", "give each prompt its own name", "two prompts are named %q", prompt.Name)
		}
		all, policies = append(all, prompt), append(policies, policy)
	}
	return all, policies, nil
}

// wrongPrompt returns an error about a key of the prompt with the index at.
func (c *Config) wrongPrompt(at int, key, hint, format string, args ...any) error {
	return c.wrongIn("prompt", at, key, hint, format, args...)
}

// wirePromptAt wires the prompt with the index at.
func (c *Config) wirePromptAt(self string, at int, s promptSection) (cycle.ClockPrompt, state.PromptPolicy, error) {
	prompt := cycle.ClockPrompt{Name: s.Name, Text: s.Text, Kind: state.KindAlways}
	policy := state.PromptPolicy{Name: s.Name, At: strings.Join(strings.Fields(s.At), " "), CatchUp: defaultCatchUp, Asks: len(s.If) > 0}
	fail := func(key, hint, format string, args ...any) (cycle.ClockPrompt, state.PromptPolicy, error) {
		return prompt, policy, c.wrongPrompt(at, key, hint, format, args...)
	}
	switch {
	case s.Name == "":
		return fail("name", `set a name such as "morning"; mails and `+"`agentstateloop prompt run` use it", "is missing")
	case !sectionName.Get().MatchString(s.Name):
		return fail("name", "use a-z, 0-9 and -, at most 32 characters", "%q is not a valid name", s.Name)
	case s.At == "":
		return fail("at", `set five crontab fields, such as "0 8 * * 1-5" for 8:00 from Monday to Friday`, "is missing")
	case strings.TrimSpace(s.Text) == "" && s.File == "":
		return fail("text", `set the instructions for the agent, or name a file: file = "morning.md"`, "is missing")
	case s.Text != "" && s.File != "":
		return fail("file", "keep one of them", "text and file cannot both be set")
	case len(s.Text) > cycle.MaxPromptText:
		return fail("text", "put the rest in a file that the agent can read", "is longer than %d KiB", cycle.MaxPromptText>>10)
	case s.Mail != "" && s.Mail != state.KindAlways && s.Mail != state.KindSaid:
		return fail("mail", `"said" sends no mail if the answer is empty or NOTHING`, "%q is not one of: always, said", s.Mail)
	case s.If != nil && (len(s.If) == 0 || s.If[0] == ""):
		return fail("if", `set a program such as ["./changed.sh"]; exit code 1 means nothing to do`, "is empty")
	case s.Session != "" && s.Session != SessionFresh:
		return fail("session", `"fresh" starts a new session for each turn`, "%q is not one of: fresh", s.Session)
	case len(s.Args) > 0 && c.File.Turn.Runner == turn.API:
		return fail("args", "set model", `has no effect with runner = "api"`)
	case s.Model != "" && !slices.Contains([]string{turn.Claude, turn.Codex, turn.Gemini, turn.ACP, turn.API}, c.File.Turn.Runner):
		return fail("model", "set it in args, in the form your program expects", "has no effect with runner = %q", c.File.Turn.Runner)
	case s.CatchUp != nil && time.Duration(*s.CatchUp) > maxCatchUp:
		return fail("catch_up", "", "must be at most %d days", int(maxCatchUp/(24*time.Hour)))
	}
	times, err := cron.ParseTimes(s.At)
	if err != nil {
		return fail("at", `use five crontab fields: minute, hour, day of the month, month, day of the week; "0 8 * * 1-5" is 8:00 from Monday to Friday`, "%q: %v", s.At, err)
	}
	policy.Next = times.Next
	if s.CatchUp != nil {
		policy.CatchUp = time.Duration(*s.CatchUp)
	}
	prompt.Fresh, prompt.Args, prompt.Runner = s.Session == SessionFresh, s.Args, c.File.Turn.Runner
	switch {
	case s.Model != "" && (prompt.Runner == turn.API || prompt.Runner == turn.ACP):
		prompt.Model = s.Model
	case s.Model != "":
		prompt.Args = append([]string{"--model", s.Model}, prompt.Args...)
	}
	if s.Workdir != "" { // claude and gemini resume a session only in the folder where it began
		prompt.Workdir, prompt.Fresh = c.Resolve(s.Workdir), true
	}
	if s.Mail != "" {
		prompt.Kind = s.Mail
	}
	if s.File != "" {
		prompt.File = c.Resolve(s.File)
	}
	if len(s.If) > 0 {
		prompt.If = c.programWith(self, s.If)
	}
	return prompt, policy, nil
}

// programWith returns a program that runs in the folder of the configuration, with the small
// environment of an agent and [turn.env].
func (c *Config) programWith(self string, command []string) *hook.Program {
	env := c.minimalEnv(self)
	p := &hook.Program{Command: slices.Clone(command), Dir: filepath.Dir(c.Path), Env: env.list()}
	p.Command[0] = c.ResolveProgram(command[0])
	if !strings.Contains(p.Command[0], "/") {
		if found := InPath(p.Command[0], env["PATH"]); found != "" {
			p.Command[0] = found
		}
	}
	return p
}

// promptSlack returns how much later than usual a prompt may run and still be on time. With mode =
// "none", no crontab line guarantees a poll before the next interval.
func (c *Config) promptSlack() time.Duration {
	if c.File.Schedule.Mode == cycle.ModeNone {
		return time.Duration(c.File.Timing.IdleInterval) + 5*time.Minute
	}
	return 0
}
