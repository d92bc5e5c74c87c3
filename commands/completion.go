package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

// The scripts ask the program itself what could come next.
const (
	bashCompletion = `# agentstateloop completion for bash:
#   agentstateloop completion bash > ~/.local/share/bash-completion/completions/agentstateloop
_agentstateloop() {
    local current=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]:0:COMP_CWORD}")
    [[ $current == -* ]] && words+=("$current")
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$current"))
}
complete -o default -F _agentstateloop agentstateloop
`

	zshCompletion = `#compdef agentstateloop
# agentstateloop completion for zsh, in a folder of $fpath:
#   agentstateloop completion zsh > ~/.zfunc/_agentstateloop
_agentstateloop() {
    local -a asked choices
    asked=("${(@)words[1,CURRENT-1]}")
    [[ $words[CURRENT] == -* ]] && asked+=("$words[CURRENT]")
    choices=("${(@f)$("${asked[@]}" --generate-bash-completion 2>/dev/null)}")
    [[ -n $choices[1] ]] && compadd -a choices || _files
}
if [[ $funcstack[1] == _agentstateloop ]]; then
    _agentstateloop "$@"
else
    compdef _agentstateloop agentstateloop
fi
`
)

func completionCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a completion script for your shell",
		ArgsUsage: "bash|zsh|fish",
		Description: `Example:
  source <(agentstateloop completion bash)`,
		BashComplete: func(*cli.Context) { p.out.Printf("bash\nzsh\nfish\n") },
		Action:       func(c *cli.Context) error { return printCompletion(c, &p.out) },
	}
}

func printCompletion(c *cli.Context, out *terminal.Output) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	switch shell := c.Args().First(); shell {
	case "bash":
		out.Printf("%s", bashCompletion)
	case "zsh":
		out.Printf("%s", zshCompletion)
	case "fish":
		script, err := c.App.ToFishCompletion()
		if err != nil {
			return err
		}
		// The library marks placeholders in the flags' texts with backquotes.
		out.Printf("%s", strings.ReplaceAll(script, "`", ""))
	default:
		return terminal.Usagef("use bash, zsh or fish", "unknown shell %q", shell)
	}
	return nil
}
