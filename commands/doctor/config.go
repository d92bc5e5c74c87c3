package doctor

import (
	"os"
	"path/filepath"

	"agentstateloop/commands/config"
)

// configHint is the hint for an error in the configuration that has no hint of its own.
const configHint = "correct this in the configuration; no poll runs until then"

// readConfig reads the configuration into e and wires the parts without errors.
// It returns a finding for each error.
func (e *examination) readConfig() []Finding {
	const name = "config"
	if e.Missing != nil {
		return []Finding{failure(name, "run `agentstateloop init`", e.Missing)}
	}
	var found []Finding
	c, err := e.Loader.Read(e.Path)
	if err != nil {
		found = append(found, failure(name, configHint, err))
		if c, err = e.Loader.ReadLoosely(e.Path); err != nil {
			return found
		}
	}
	e.config = c
	var wrong []error
	e.agent, wrong = e.Loader.Wire(c)
	for _, err := range wrong {
		found = append(found, failure(name, configHint, err))
	}
	if f := checkConfigFile(e.Path); f.Level != OK || len(found) == 0 {
		found = append(found, f)
	}
	if e.agent != nil && config.Unproved(e.agent) {
		found = append(found, bad(Warn, "trust", `set require = "dmarc" in [trust]; use "from" only for tests`,
			`require = "from" verifies nothing: anyone who puts your address into From can run your agent`))
	}
	return found
}

// checkConfigFile checks who may write the configuration: anyone with write access can run commands
// as the user.
func checkConfigFile(path string) Finding {
	const name = "config"
	info, err := os.Stat(path)
	if err != nil {
		return failure(name, "", err)
	}
	mode := info.Mode().Perm()
	if mode&0o022 != 0 {
		return bad(Error, name, "chmod 600 "+path, "%s is writable by others (mode %04o), and it names programs that you run", path, mode).by(tighten(path))
	}
	dir := filepath.Dir(path)
	if folder, err := os.Stat(dir); err == nil && folder.Mode().Perm()&0o002 != 0 && folder.Mode()&os.ModeSticky == 0 {
		return bad(Error, name, "chmod o-w "+dir,
			"%s is writable by others (mode %04o), who can replace the configuration, which names programs that you run", dir, folder.Mode().Perm()).by(setMode(dir, folder.Mode().Perm()&^0o002))
	}
	if mode&0o077 != 0 {
		return bad(Info, name, "chmod 600 "+path, "%s is readable by others (mode %04o)", path, mode).by(tighten(path))
	}
	return good(name, "%s, mode %04o", path, mode)
}
