package commands

import (
	"errors"
	"os"
	"path/filepath"

	"agentstateloop/commands/config"
	"agentstateloop/commands/page"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/osfile"
)

// statusHTML writes the page of the agents to a file, or to standard output if file is "-".
func statusHTML(c *call, file string, all bool) error {
	agents, err := c.agentsOfPage(all)
	if err != nil {
		return err
	}
	hears, err := c.mayReadOthers()
	if err != nil {
		return err
	}
	var sources []page.Source
	for _, a := range agents {
		sources = append(sources, page.Source{Agent: a, WithoutWords: !hears})
	}
	d := page.NewDocument(sources, c.now())
	d.Version = c.build.version()
	if d.Host, err = os.Hostname(); err != nil {
		return err
	}
	data, err := page.File(d)
	if err != nil {
		return err
	}
	text := c.loader.Secrets.Redact(string(data))
	if file == "-" {
		c.out.Verbatim(text)
		return nil
	}
	if err := replaceFile(file, []byte(text)); err != nil {
		return terminal.WithHint(err, "give another FILE, or - for standard output")
	}
	return nil
}

// agentsOfPage returns the agents of the arguments, those next to the configuration, or the selected one.
func (c *call) agentsOfPage(all bool) ([]*cycle.Agent, error) {
	if all || len(c.args) > 0 {
		return c.agentsToShow()
	}
	a, err := c.load()
	return []*cycle.Agent{a}, err
}

// replaceFile replaces a file (0600) in one step. If it is a link, the file that it points to is
// replaced.
func replaceFile(file string, data []byte) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return osfile.File(file, 0)
	}
	dir := filepath.Dir(file)
	osfile.RemoveDrafts(dir, config.DraftPattern) // of a killed process
	f, err := osfile.WriteDraft(dir, config.DraftPattern, 0o600, data)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Rename(f.Name(), file); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return osfile.SyncDir(dir)
}
