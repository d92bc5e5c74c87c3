package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
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
		Description: `The script completes commands, flags and their values, the handles of your
agents, and the numbers of messages.

Example:
  source <(agentstateloop completion bash)`,
		Action: func(c *cli.Context) error { return printCompletion(c, &p.out) },
	}
}

func printCompletion(c *cli.Context, out *terminal.Output) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	script := ""
	switch shell := c.Args().First(); shell {
	case "bash":
		script = bashCompletion
	case "zsh":
		script = zshCompletion
	case "fish":
		script = fishCompletion
	default:
		return terminal.Usagef("use bash, zsh or fish", "unknown shell %q", shell)
	}
	return printFile(c, out, script)
}
