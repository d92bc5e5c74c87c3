package commands

import (
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

func versionCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Description: `Prints the same line as --version. With --json it also prints how this binary
was built.

Example:
  agentstateloop version --json | jq -r .commit`,
		Action: p.action(0, 0, printVersion),
	}
}

func printVersion(c *call) error { return c.print(buildOf(), "%s\n", versionLine()) }

// versionLine returns the line of --version.
func versionLine() string { return name + " version " + version() }

// versionOutput is the JSON output of version.
type versionOutput struct {
	Version    string  `json:"version"` // of the module
	Contract   int     `json:"contract"`
	Go         string  `json:"go"`
	OS         string  `json:"os"`
	Arch       string  `json:"arch"`
	Commit     *string `json:"commit"` // null if built without version control
	CommitTime *string `json:"commit_time"`
	Modified   *bool   `json:"modified"` // built with uncommitted changes
}

// contract is the version of the promises in docs/json.md. It rises with a changed promise, but
// not with an addition.
const contract = 1

// buildOf returns the build data of this binary.
func buildOf() versionOutput {
	v := versionOutput{Version: version(), Contract: contract, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = &s.Value
		case "vcs.time":
			v.CommitTime = &s.Value
		case "vcs.modified":
			modified := s.Value == "true"
			v.Modified = &modified
		}
	}
	return v
}
