package doctor

import (
	"os"
	"path/filepath"

	"agentstateloop/commands/config"
)

// configHint is for an error in the configuration that has no hint.
const configHint = "no poll runs until this is fixed"

// readConfig reads the configuration and wires what can be wired. Everything
// that is wrong in it is a finding.
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
		found = append(found, bad(Warn, "trust", `set require = "dmarc" in [trust]; "from" is for test beds`,
			`require = "from" checks nothing: anyone who writes your address into From can run your agent`))
	}
	return found
}

// checkConfigFile looks at who may write the configuration: they can run
// commands as its user.
func checkConfigFile(path string) Finding {
	const name = "config"
	info, err := os.Stat(path)
	if err != nil {
		return failure(name, "", err)
	}
	mode := info.Mode().Perm()
	if mode&0o022 != 0 {
		return bad(Error, name, "chmod 600 "+path, "%s can be written by others (mode %04o), and names programs that you run", path, mode)
	}
	dir := filepath.Dir(path)
	if folder, err := os.Stat(dir); err == nil && folder.Mode().Perm()&0o002 != 0 && folder.Mode()&os.ModeSticky == 0 {
		return bad(Error, name, "chmod o-w "+dir,
			"%s can be written by others (mode %04o), who can put another configuration there, which names programs that you run", dir, folder.Mode().Perm())
	}
	if mode&0o077 != 0 {
		return bad(Info, name, "chmod 600 "+path, "%s can be read by others (mode %04o)", path, mode)
	}
	return good(name, "%s, mode %04o", path, mode)
}
