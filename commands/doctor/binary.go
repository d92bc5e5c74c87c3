package doctor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"os"

	"agentstateloop/commands/config"
	"agentstateloop/cron"
	"agentstateloop/cycle"
)

// binaryCheck compares the program that the crontab line runs with this one.
type binaryCheck struct {
	mode    string // of [schedule]
	self    string // path of this program
	pinned  string // path of the program in the crontab line; "" before the first line
	version string // of this program
}

func (c binaryCheck) run(context.Context) []Finding {
	if c.mode != cycle.ModeCrontab {
		return nil
	}
	return []Finding{c.finding()}
}

func (c binaryCheck) finding() Finding {
	const name = "binary"
	switch {
	case c.pinned == "" && cron.TemporaryBinary(c.self):
		return bad(Error, name, "install the program with `go install`, and use that one", "%s is a temporary binary of `go run`: it will be gone when cron runs it", c.self)
	case c.pinned == "":
		return good(name, "the crontab line will run %s, version %s", c.self, c.version)
	case !config.CanRun(c.pinned):
		return bad(Error, name, "restore it, or run `poll` once with the binary that cron should use", "the crontab line runs %s, which is missing or not executable", c.pinned)
	case !sameBinary(c.pinned, c.self):
		return bad(Warn, name, "install this one there, or run `agentstateloop uninstall` and then `agentstateloop init` with the one you want",
			"the crontab line runs %s (%s), but this is %s (%s)", c.pinned, versionOf(c.pinned), c.self, c.version)
	}
	return good(name, "%s, version %s", c.pinned, c.version)
}

// sameBinary reports whether two paths name the same file or files with the same
// contents.
func sameBinary(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return false
	}
	if os.SameFile(infoA, infoB) {
		return true
	}
	sumA, errA := hashFile(a)
	sumB, errB := hashFile(b)
	return errA == nil && errB == nil && bytes.Equal(sumA, sumB)
}

// hashFile returns the SHA-256 hash of a file.
func hashFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return sum.Sum(nil), err
}
