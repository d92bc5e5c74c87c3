package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/cycle"
)

// dryRun is poll --dry-run.
func (p *program) dryRun(c *cli.Context, a *cycle.Agent) error {
	preview, err := a.Preview(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = p.printJSON(previewJSON(preview))
	} else {
		p.printPreview(preview)
	}
	if err != nil {
		return err
	}
	return failedSources(preview.Failed, false)
}

// previewJSON has empty lists where a preview has none.
func previewJSON(v cycle.Preview) cycle.Preview {
	if v.Transitions == nil {
		v.Transitions = []string{}
	}
	if v.Arrived == nil {
		v.Arrived = []cycle.PreviewItem{}
	}
	if v.Rejected == nil {
		v.Rejected = []cycle.PreviewItem{}
	}
	if v.Mails == nil {
		v.Mails = []cycle.PreviewMail{}
	}
	if v.Failed == nil {
		v.Failed = []cycle.SourceFailure{}
	}
	return v
}

func (p *program) printPreview(v cycle.Preview) {
	p.printf("dry run: nothing below happens\n")
	for _, m := range v.Arrived {
		p.printf("would take    a message from %s (%s)\n", oneLine(m.From), oneLine(m.Key))
	}
	for _, m := range v.Rejected {
		p.printf("would refuse  a message from %s (%s): %s\n", oneLine(m.From), oneLine(m.Key), oneLine(m.Reason))
	}
	for _, t := range v.Transitions {
		p.printf("would go      %s\n", oneLine(t))
	}
	if len(v.Transitions) == 0 {
		p.printf("would stay    %s\n", v.After)
	}
	for _, m := range v.Mails {
		p.printf("would send    a %s to %s\n", map[bool]string{true: "mail", false: "mesh message"}[m.Channel == "mail"], oneLine(m.To))
		if m.Subject != "" {
			p.printf("  | Subject: %s\n", oneLine(m.Subject))
		}
		for line := range strings.Lines(printable(m.Text)) {
			p.printf("  | %s\n", strings.TrimRight(line, "\n"))
		}
	}
	if v.CrontabError != "" {
		p.warn("the crontab cannot be read: %s", oneLine(v.CrontabError))
	}
	if v.CrontabDiff != "" {
		p.printf("would edit    the crontab\n%s", indented(printable(v.CrontabDiff)))
	}
}

// indented puts two spaces before each line.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}
