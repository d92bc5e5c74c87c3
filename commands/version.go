package commands

import (
	"agentstateloop/internal/osfile"
	"cmp"
	"encoding/hex"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

func versionCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Description: `Prints the same line as --version: the version, the commit and its date, the
version of Go, and the platform. A build without a known commit, or with
uncommitted changes, also has a checksum of the program.

Example:
  agentstateloop version --json | jq -r .commit`,
		Action: p.action(0, 0, func(c *call) error { return c.printVersion() }),
	}
}

// printVersion prints the line of --version, or JSON.
func (p *program) printVersion() error {
	v, err := p.buildData()
	if err != nil {
		return err
	}
	if p.json {
		return p.out.JSON(v)
	}
	p.out.Printf("%s\n", v.line())
	return nil
}

// Build is what package main knows about the program: the values of the linker, which are "" if
// this is not a release, and agent.toml.example.
type Build struct {
	Version string // such as v0.1.0
	Commit  string // with all its digits
	Date    string // of the commit, as in RFC 3339
	Example string
}

// version returns the version of the release, the module or the commit.
func (b Build) version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(b, info).Version
}

// versionOutput is the JSON output of version.
type versionOutput struct {
	Version    string  `json:"version"`
	Contract   int     `json:"contract"`
	Go         string  `json:"go"`
	OS         string  `json:"os"`
	Arch       string  `json:"arch"`
	Commit     *string `json:"commit"`      // null if it is unknown
	CommitTime *string `json:"commit_time"` // null if it is unknown
	Modified   *bool   `json:"modified"`    // built with uncommitted changes; null if that is unknown
	Checksum   *string `json:"checksum"`    // of the program, if the other members may fit another build too
}

// contract is the version of the promises in docs/json.md. It rises with a changed promise, but
// not with an addition.
const contract = 1

// buildData returns the build data of this program.
func (p *program) buildData() (versionOutput, error) {
	info, _ := debug.ReadBuildInfo()
	v := versionOf(p.build, info)
	if v.isUnique() {
		return v, nil
	}
	sum, err := p.checksum()
	if err != nil {
		return v, fmt.Errorf("read this program, to name its build: %w", err)
	}
	v.Checksum = &sum
	return v, nil
}

// versionOf returns the build data: the linker's, else that of version control, else that in the
// module's version. info may be nil.
func versionOf(b Build, info *debug.BuildInfo) versionOutput {
	v := versionOutput{Contract: contract, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	module, commit, date := "", "", ""
	if info != nil {
		module = info.Main.Version
		commit, date = pseudoVersion(module)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.time":
				date = s.Value
			case "vcs.modified":
				modified := s.Value == "true"
				v.Modified = &modified
			}
		}
	}
	v.Version = cmp.Or(b.Version, module, "unknown")
	v.Commit, v.CommitTime = orNull(cmp.Or(b.Commit, commit)), orNull(cmp.Or(b.Date, date))
	return v
}

// The parts of a pseudo-version: v0.0.0-20261128181154-2d2b89f9f8d2 (go.dev/ref/mod,
// "Pseudo-versions").
const (
	pseudoTime   = "20060102150405"
	pseudoCommit = 12
)

// pseudoVersion returns the commit and its time in the version of a module, or "".
func pseudoVersion(version string) (commit, date string) {
	version, _, _ = strings.Cut(version, "+")
	dash := strings.LastIndex(version, "-")
	if dash < len(pseudoTime) || len(version) != dash+1+pseudoCommit {
		return "", ""
	}
	at, err := time.Parse(pseudoTime, version[dash-len(pseudoTime):dash])
	if err != nil {
		return "", ""
	}
	return version[dash+1:], at.Format(time.RFC3339)
}

// isUnique reports whether the build data names one commit. The version of a release does so
// without the commit: Go's proxy and our release process never move a tag.
func (v versionOutput) isUnique() bool {
	if v.Modified != nil && *v.Modified {
		return false
	}
	return v.Commit != nil || v.Version != "(devel)" && v.Version != "unknown"
}

// checksum returns the SHA-256 of this program.
func (p *program) checksum() (string, error) {
	path, err := p.loader.Executable()
	if err != nil {
		return "", err
	}
	sum, err := osfile.SHA256(path)
	return hex.EncodeToString(sum), err
}

// fewDigits is how many digits of a commit or checksum a person needs.
const fewDigits = 12

// line returns the line of --version.
func (v versionOutput) line() string {
	var parts []string
	if v.Commit != nil {
		commit := "commit " + few(*v.Commit)
		if v.CommitTime != nil {
			day, _, _ := strings.Cut(*v.CommitTime, "T")
			commit += " of " + day
		}
		parts = append(parts, commit)
	}
	if v.Modified != nil && *v.Modified {
		parts = append(parts, "modified")
	}
	if v.Checksum != nil {
		parts = append(parts, "checksum "+few(*v.Checksum))
	}
	parts = append(parts, v.Go, v.OS+"/"+v.Arch)
	return name + " version " + v.Version + " (" + strings.Join(parts, ", ") + ")"
}

func few(digits string) string { return digits[:min(len(digits), fewDigits)] }
