package commands

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
)

// The scripts ask the program itself for candidates (completeCommand). Without an answer they
// complete file names.
const (
	bashCompletion = `# agentstateloop completion for bash:
#   agentstateloop completion bash > ~/.local/share/bash-completion/completions/agentstateloop
_agentstateloop() {
    local choice
    COMPREPLY=()
    while IFS= read -r choice; do
        COMPREPLY+=("$choice")
    done < <("${COMP_WORDS[0]}" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
}
complete -o default -F _agentstateloop agentstateloop
`

	zshCompletion = `#compdef agentstateloop
# agentstateloop completion for zsh, in a folder of $fpath:
#   agentstateloop completion zsh > ~/.zfunc/_agentstateloop
_agentstateloop() {
    local line word
    local -a choices
    while IFS= read -r line; do
        word=${${line%%$'\t'*}//:/\\:}
        if [[ $line == *$'\t'* ]]; then
            word+=":${line#*$'\t'}"
        fi
        choices+=("$word")
    done < <("$words[1]" __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if (( $#choices )); then
        _describe agentstateloop choices
    else
        _files
    fi
}
if [[ $funcstack[1] == _agentstateloop ]]; then
    _agentstateloop "$@"
else
    compdef _agentstateloop agentstateloop
fi
`

	fishCompletion = `# agentstateloop completion for fish:
#   agentstateloop completion fish > ~/.config/fish/completions/agentstateloop.fish
function __agentstateloop_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l choices ($words[1] __complete fish $words[2..-1] 2>/dev/null)
    if test (count $choices) -gt 0
        printf '%s\n' $choices
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c agentstateloop -f -a '(__agentstateloop_complete)'
`
)

func completionCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a completion script for your shell",
		ArgsUsage: "bash|zsh|fish",
		Description: `Completes commands, flags and their values, the handles of your agents, and the
numbers of messages.

Example:
  source <(agentstateloop completion bash)`,
		Action: p.action(1, 1, printCompletion),
	}
}

func printCompletion(c *call) error {
	script := ""
	switch shell := c.arg(0); shell {
	case "bash":
		script = bashCompletion
	case "zsh":
		script = zshCompletion
	case "fish":
		script = fishCompletion
	default:
		return terminal.Usagef("use bash, zsh or fish", "unknown shell %q", shell)
	}
	return c.printFile(script)
}

// completeCommand is the hidden command that the completion scripts call for the next word:
//
//	agentstateloop __complete bash LINE WORDBREAKS
//	agentstateloop __complete zsh|fish WORD...
//
// LINE ends at the cursor, and the last WORD is still incomplete.
const completeCommand = "__complete"

// candidate is a possible next word with its description, which may be "".
type candidate struct{ word, description string }

// complete prints the candidates for a completion script. It never fails. Without candidates the
// shell completes file names.
func (p *program) complete(ctx context.Context, args []string) {
	if len(args) == 0 {
		return
	}
	shell, words := args[0], args[1:]
	cut := ""
	if shell == "bash" {
		words, cut = bashWords(args[1:])
	}
	if len(words) == 0 {
		words = []string{""}
	}
	printed := map[string]bool{}
	for _, c := range p.candidates(ctx, words) {
		if printed[c.word] || !strings.HasPrefix(c.word, words[len(words)-1]) {
			continue
		}
		printed[c.word] = true
		line := strings.TrimPrefix(c.word, cut)
		if description := plain.Line(c.description); description != "" && shell != "bash" {
			line += "\t" + description
		}
		p.out.Verbatim(line + "\n")
	}
}

// bashWords returns the words of a line of bash, without the program. cut is the beginning of
// the last word that bash keeps. Bash splits words at more characters than the shell does, such
// as "=" and ":", and replaces only the text after them. It also replaces an "@", because host
// names begin with it.
func bashWords(args []string) (words []string, cut string) {
	if len(args) != 2 {
		return nil, ""
	}
	all := shellWords(args[0])
	if len(all) < 2 {
		return nil, ""
	}
	last := all[len(all)-1]
	end := strings.LastIndexAny(last, args[1])
	if end >= 0 && last[end] != '@' {
		end++
	}
	return all[1:], last[:max(0, end)]
}

// shellWords splits an incomplete line into words, without their quotes. The last word is still
// incomplete, and may be "".
func shellWords(line string) []string {
	words := []string{""}
	quote, escaped, blank := rune(0), false, true
	for _, r := range line {
		last := &words[len(words)-1]
		switch {
		case escaped:
			*last, escaped = *last+string(r), false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			*last += string(r)
		case r == '\'' || r == '"':
			quote = r
		case r == ' ' || r == '\t':
			if !blank {
				words = append(words, "")
			}
			blank = true
			continue
		default:
			*last += string(r)
		}
		blank = false
	}
	return words
}

// candidates returns the candidates for the last of words.
func (p *program) candidates(ctx context.Context, words []string) []candidate {
	t := typedLine{app: p.app()}
	for _, word := range words[:len(words)-1] {
		t.take(word)
	}
	last := words[len(words)-1]
	v := values{ctx: ctx, program: p, typed: t}
	flag, value, valued := strings.Cut(last, "=")
	switch {
	case t.unknown:
		return nil
	case t.pending != "":
		return v.ofFlag(t.pending)
	case t.ended:
		return v.ofArgument()
	case strings.HasPrefix(last, "-") && valued:
		return prefixed(flag+"=", v.ofFlag(strings.TrimLeft(flag, "-")), value)
	case strings.HasPrefix(last, "-"):
		return t.flags()
	case len(t.commands) == 0 && strings.HasPrefix(last, "@"):
		return prefixed("@", v.handles(), "")
	case len(t.choices()) > 0:
		return commandCandidates(t.choices())
	}
	return v.ofArgument()
}

func prefixed(prefix string, all []candidate, word string) []candidate {
	var some []candidate
	for _, c := range all {
		if strings.HasPrefix(c.word, word) {
			some = append(some, candidate{prefix + c.word, c.description})
		}
	}
	return some
}

func commandCandidates(commands []*cli.Command) []candidate {
	var all []candidate
	for _, c := range commands {
		if !c.Hidden {
			all = append(all, candidate{c.Name, c.Usage})
		}
	}
	return all
}

// typedLine holds the words before the incomplete one. It accepts more than a complete command line
// does.
type typedLine struct {
	app       *cli.App
	commands  []*cli.Command // from the outermost
	given     map[string]string
	pending   string // the flag whose value comes next, or ""
	arguments []string
	ended     bool // after "--"
	unknown   bool // after an unknown command
}

func (t *typedLine) take(word string) {
	switch {
	case t.pending != "":
		t.set(t.pending, word)
		t.pending = ""
	case t.ended:
		t.arguments = append(t.arguments, word)
	case word == "--":
		t.ended = true
	case strings.HasPrefix(word, "-") && word != "-":
		t.flag(word)
	case len(t.commands) == 0 && strings.HasPrefix(word, "@"):
		t.set("agent", word)
	case len(t.commands) == 0 && word == "help":
	default:
		t.word(word)
	}
}

func (t *typedLine) word(word string) {
	for _, c := range t.choices() {
		if c.HasName(word) {
			t.commands = append(t.commands, c)
			return
		}
	}
	t.unknown = len(t.choices()) > 0
	t.arguments = append(t.arguments, word)
}

func (t *typedLine) flag(word string) {
	flag, value, valued := strings.Cut(strings.TrimLeft(word, "-"), "=")
	f := t.find(flag)
	if f == nil {
		return
	}
	flag = f.Names()[0]
	doc, _ := f.(cli.DocGenerationFlag)
	if !valued && doc != nil && doc.TakesValue() && !mayStandAlone(f) {
		t.pending = flag
		return
	}
	t.set(flag, value)
}

func (t *typedLine) set(flag, value string) {
	if t.given == nil {
		t.given = map[string]string{}
	}
	t.given[flag] = value
}

// choices returns the commands that may come next.
func (t *typedLine) choices() []*cli.Command {
	if len(t.commands) == 0 {
		return t.app.Commands
	}
	return t.commands[len(t.commands)-1].Subcommands
}

// known returns the allowed flags, the command's own first.
func (t *typedLine) known() []cli.Flag {
	var all []cli.Flag
	if len(t.commands) > 0 {
		all = slices.Clone(t.commands[len(t.commands)-1].Flags)
	}
	return append(all, t.app.Flags...)
}

func (t *typedLine) find(flag string) cli.Flag {
	for _, f := range t.known() {
		if slices.Contains(f.Names(), flag) {
			return f
		}
	}
	return nil
}

// flags returns the flags that are not given yet, and those that may be repeated.
func (t *typedLine) flags() []candidate {
	var all []candidate
	for _, f := range t.known() {
		flag := f.Names()[0]
		if _, given := t.given[flag]; given && !mayBeRepeated(f) {
			continue
		}
		usage := ""
		if doc, ok := f.(cli.DocGenerationFlag); ok {
			usage = strings.ReplaceAll(doc.GetUsage(), "`", "")
		}
		all = append(all, candidate{dashed(flag), usage})
	}
	return append(all, candidate{"--help", "show this help"})
}

// path returns the command, such as "inbox show", or "".
func (t *typedLine) path() string {
	var names []string
	for _, c := range t.commands {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}
