package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

// dryRun prints the actions that a poll would take now.
func dryRun(c *cli.Context, a *cycle.Agent, out *terminal.Output) error {
	preview, err := a.Preview(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = out.JSON(previewJSON(preview))
	} else {
		printPreview(out, preview)
	}
	if err != nil {
		return err
	}
	return failedSources(preview.Failed, false)
}

// previewJSON returns v with empty lists instead of nil.
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

func printPreview(out *terminal.Output, v cycle.Preview) {
	out.Printf("dry run: nothing below happens\n")
	for _, m := range v.Arrived {
		out.Printf("would take    a message from %s (%s)\n", plain.Line(m.From), plain.Line(m.Key))
	}
	for _, m := range v.Rejected {
		if m.Key == "" { // of a flood
			out.Printf("would reject  further messages: %s\n", plain.Line(m.Reason))
			continue
		}
		out.Printf("would reject  a message from %s (%s): %s\n", plain.Line(m.From), plain.Line(m.Key), plain.Line(m.Reason))
	}
	for _, t := range v.Transitions {
		out.Printf("would go      %s\n", plain.Line(t))
	}
	if len(v.Transitions) == 0 {
		out.Printf("would stay    %s\n", v.After)
	}
	for _, m := range v.Mails {
		out.Printf("would send    a %s to %s\n", map[bool]string{true: "mail", false: "mesh message"}[m.Channel == "mail"], plain.Line(m.To))
		if m.Subject != "" {
			out.Printf("  | Subject: %s\n", plain.Line(m.Subject))
		}
		for line := range strings.Lines(terminal.Printable(m.Text)) {
			out.Printf("  | %s\n", strings.TrimRight(line, "\n"))
		}
	}
	if v.CrontabError != "" {
		out.Warn("the crontab cannot be read: %s", plain.Line(v.CrontabError))
	}
	if v.CrontabDiff != "" {
		out.Printf("would edit    the crontab\n%s", indented(terminal.Printable(v.CrontabDiff)))
	}
}

// indented returns text with two spaces before each line.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}
