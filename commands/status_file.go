package commands

import (
	"bytes"
	"io/fs"
	"os"

	"agentstateloop/commands/config"
	"agentstateloop/commands/page"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/osfile"
)

// writeFile writes the page or the metrics of the agents to the file of a flag, or to standard output
// if the file is "-".
func (o *statusOptions) writeFile(c *call, flag string) error {
	file, mode, text := o.html, fs.FileMode(0o600), c.pageText
	if flag == "prometheus" {
		file, mode, text = o.prometheus, 0o644, c.metricsText // node_exporter is another user
	}
	switch {
	case o.watch || c.json:
		return terminal.Usagef("leave out --watch and --json", "--%s works alone, or with --all", flag)
	case o.html != "" && o.prometheus != "":
		return terminal.Usagef("use them one after the other", "--html does not work with --prometheus")
	case file == "":
		return terminal.Usagef("give a FILE, or - for standard output", "--%s needs a FILE", flag)
	}
	sources, err := c.sources(o.all)
	if err != nil {
		return err
	}
	data, err := text(sources)
	if err != nil {
		return err
	}
	if file == "-" {
		c.out.Verbatim(string(data))
		return nil
	}
	if err := osfile.Replace(file, config.DraftPattern, mode, data); err != nil {
		return terminal.WithHint(err, "give another FILE, or - for standard output")
	}
	return nil
}

// sources returns the agents of the arguments, those next to the configuration, or the selected one.
func (c *call) sources(all bool) ([]page.Source, error) {
	hears, err := c.mayReadOthers()
	if err != nil {
		return nil, err
	}
	if !all && len(c.args) == 0 {
		a, err := c.load()
		return []page.Source{{Agent: a, WithoutWords: !hears}}, err
	}
	agents, err := c.agentsToShow()
	var sources []page.Source
	for _, a := range agents {
		sources = append(sources, page.Source{Agent: a, WithoutWords: !hears})
	}
	return sources, err
}

// pageText returns the page of the agents as one file.
func (c *call) pageText(sources []page.Source) ([]byte, error) {
	d := page.NewDocument(sources, c.now())
	d.Version = c.build.version()
	var err error
	if d.Host, err = os.Hostname(); err != nil {
		return nil, err
	}
	return page.File(d)
}

// metricsText returns the metrics of the agents. No metric has words of a message.
func (c *call) metricsText(sources []page.Source) ([]byte, error) {
	var text bytes.Buffer
	err := page.Metrics(&text, sources, c.build.version(), c.now())
	return text.Bytes(), err
}
