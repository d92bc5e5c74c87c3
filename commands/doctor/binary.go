package doctor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"io"
	"os"

	"agentstateloop/commands/config"
	"agentstateloop/cron"
	"agentstateloop/cycle"
)

// binaryCheck looks at the program that the crontab line runs.
type binaryCheck struct {
	mode    string
	self    string // this program
	pinned  string // the program in the line; "": there is no line yet
	version string // of this program
}

func (c binaryCheck) run(context.Context) []Finding {
	if c.mode != cycle.ModeCrontab {
		return nil
	}
	return []Finding{c.look()}
}

func (c binaryCheck) look() Finding {
	const name = "binary"
	switch {
	case c.pinned == "" && cron.TemporaryBinary(c.self):
		return bad(Error, name, "`go install` it, and run that", "%s is a temporary binary of go: it will be gone when cron runs it", c.self)
	case c.pinned == "":
		return good(name, "%s, version %s, as soon as there is a line", c.self, c.version)
	case !config.CanRun(c.pinned):
		return bad(Error, name, "put it back, or poll once with the binary that cron is to run", "the line runs %s, which does not exist, or cannot be run", c.pinned)
	case !sameBinary(c.pinned, c.self):
		return bad(Warn, name, "install this one there; or `agentstateloop uninstall`, then `agentstateloop init` with the one you want",
			"the line runs %s (%s), and this is another one: %s (%s)", c.pinned, versionOf(c.pinned), c.self, c.version)
	}
	return good(name, "%s, version %s", c.pinned, c.version)
}

func sameBinary(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return false
	}
	if os.SameFile(infoA, infoB) {
		return true
	}
	sumA, errA := sumOf(a)
	sumB, errB := sumOf(b)
	return errA == nil && errB == nil && bytes.Equal(sumA, sumB)
}

func sumOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return sum.Sum(nil), err
}

// versionOf reads the version of a binary without running it.
func versionOf(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "not a Go program"
	}
	if info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}
