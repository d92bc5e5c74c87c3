package commands

import (
	"bytes"

	"agentstateloop/commands/page"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/osfile"
)

// metricsDraft is the name of a file with metrics that is not whole yet, as in os.CreateTemp.
const metricsDraft = ".agentstateloop-*"

// statusMetrics writes the metrics of the agents to a file, or to standard output if file is "-". The
// file can be read by everybody, because node_exporter is another user. No metric has words of a
// message.
func statusMetrics(c *call, file string, all bool) error {
	if file == "" {
		return terminal.Usagef("give a FILE, or - for standard output", "--prometheus needs a FILE")
	}
	var sources []page.Source
	if !all && len(c.args) == 0 {
		a, err := c.load()
		if err != nil {
			return err
		}
		sources = []page.Source{{Agent: a}}
	} else {
		agents, err := c.agentsToShow()
		if err != nil {
			return err
		}
		for _, a := range agents {
			sources = append(sources, page.Source{Agent: a})
		}
	}
	var text bytes.Buffer
	if err := page.Metrics(&text, sources, c.build.version(), c.now()); err != nil {
		return err
	}
	if file == "-" {
		_, err := text.WriteTo(c.out.Stdout)
		return err
	}
	if err := osfile.Replace(file, metricsDraft, 0o644, text.Bytes()); err != nil {
		return terminal.WithHint(err, "give another FILE, or - for standard output")
	}
	return nil
}
