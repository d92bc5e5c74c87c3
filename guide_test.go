package main_test

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// guide are the pages of docs for a user. A page answers one question, so it is short.
var guide = []string{
	"README.md", "approve.md", "backup.md", "built-in-loop.md", "cost.md", "events.md", "everyday.md", "explain.md",
	"fastmail.md", "files.md", "fleet.md", "getting-started.md", "gmail.md", "hooks.md", "mail-proof.md", "metrics.md",
	"monitoring.md", "no-answer.md", "outlook.md", "own-server.md", "page.md", "passwords.md", "polling.md", "prompt.md",
	"reference.md", "replay.md", "runners.md", "schedule.md", "scripts.md", "second-agent.md", "security.md",
}

// notGuide are the other documents: those for a developer, and docs/json.md, which is generated.
var notGuide = []string{"architecture.md", "design.md", "json.md", "performance.md", "protocol.md", "testing.md"}

// The limits of a page.
const (
	maxPage = 25_000 // bytes
	maxCell = 200    // characters of a table cell
)

// questions are the questions of a user, each with the page and the heading that answer it.
var questions = []struct{ question, page, heading string }{
	{"How do I install it?", "README.md", "Install"},
	{"How do I begin?", "docs/getting-started.md", "The first agent"},
	{"How do I use it in a container?", "docs/getting-started.md", "In a container"},
	{"How do I use it without cron?", "docs/polling.md", "Timers"},
	{"Gmail?", "docs/gmail.md", "With an app password"},
	{"Fastmail?", "docs/fastmail.md", "Fastmail"},
	{"Outlook?", "docs/outlook.md", "Outlook and Microsoft 365"},
	{"My own server?", "docs/own-server.md", "Who vouches for your mail"},
	{"How do I add a second agent?", "docs/second-agent.md", "Set it up"},
	{"What does it cost?", "docs/cost.md", "The cost of a turn"},
	{"How do I limit the cost?", "docs/cost.md", "Limits"},
	{"What would last month have been like?", "docs/replay.md", "Real and assumed"},
	{"Why did no answer come?", "docs/no-answer.md", "Signs and causes"},
	{"Why was my mail not taken?", "docs/explain.md", "I sent a mail and nothing happened"},
	{"How do I see it in a browser?", "docs/page.md", "Open it"},
	{"How do I see it on my phone?", "docs/page.md", "From another machine"},
	{"Is it safe?", "docs/security.md", "Who can do what"},
	{"How do I back it up?", "docs/backup.md", "Backup"},
	{"What happens after a restore?", "docs/backup.md", "After a restore"},
	{"How do I move it?", "docs/backup.md", "Moving to another machine"},
	{"How do I upgrade it?", "docs/backup.md", "Upgrading"},
	{"How do I go back to an older version?", "docs/backup.md", "Downgrading"},
	{"How do I remove it?", "docs/backup.md", "Removing"},
	{"How do I use it in a script?", "docs/scripts.md", "JSON"},
	{"What JSON does it print?", "docs/json.md", "Documents and lines"},
	{"Can agents on many machines work together?", "docs/fleet.md", "Ten minutes: one server, two agents"},
	{"How do I watch it with Prometheus?", "docs/metrics.md", "The metrics"},
	{"Where is each setting?", "agent.toml.example", ""},
	{"Which commands exist?", "docs/reference.md", "Commands"},
	{"Which files does an agent have?", "docs/files.md", "Obstacles"},
	{"Which events exist?", "docs/events.md", "Steps of an agent"},
	{"What is the protocol?", "docs/protocol.md", "Commands"},
	{"Which agents can I run?", "docs/runners.md", "The environment of a turn"},
}

// TestTheGuideIsShort checks the size of each page and of each table cell of the guide, that
// docs/README.md links to each page, and that each document is in one of the two lists.
func TestTheGuideIsShort(t *testing.T) {
	linked := linksOf(t, "docs/README.md")
	for _, f := range documents(t) {
		dir, name := path.Split(f.name)
		switch {
		case f.name == "README.md":
		case dir != "docs/" || slices.Contains(notGuide, name):
			continue
		case !slices.Contains(guide, name):
			t.Errorf("%s is a document in neither list: put it into guide or notGuide", f.name)
		case name != "README.md" && !slices.Contains(linked, f.name):
			t.Errorf("docs/README.md has no link to %s", f.name)
		}
		if len(f.body) > maxPage {
			t.Errorf("%s has %d bytes, at most %d: divide it", f.name, len(f.body), maxPage)
		}
		for number, line := range strings.Split(fence.ReplaceAllStringFunc(f.body, lineBreaks), "\n") {
			for cell := range strings.SplitSeq(line, "|") {
				if n := utf8.RuneCountInString(strings.TrimSpace(cell)); n > maxCell && strings.HasPrefix(line, "|") {
					t.Errorf("%s:%d: a table cell has %d characters, at most %d", f.name, number+1, n, maxCell)
				}
			}
		}
	}
	for _, name := range append(slices.Clone(guide), notGuide...) {
		if _, err := os.Stat("docs/" + name); err != nil {
			t.Errorf("a list names docs/%s, which does not exist", name)
		}
	}
}

// lineBreaks returns the line breaks of s.
func lineBreaks(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }

// TestTheReadmeLeadsToAnswers checks that each question has its heading, on a page that at most two
// links separate from the README.
func TestTheReadmeLeadsToAnswers(t *testing.T) {
	steps := map[string]int{"README.md": 0}
	for _, first := range linksOf(t, "README.md") {
		if _, ok := steps[first]; !ok {
			steps[first] = 1
		}
	}
	for _, first := range linksOf(t, "README.md") {
		if path.Ext(first) != ".md" {
			continue
		}
		for _, second := range linksOf(t, first) {
			if _, ok := steps[second]; !ok {
				steps[second] = 2
			}
		}
	}
	for _, q := range questions {
		if _, ok := steps[q.page]; !ok {
			t.Errorf("%s %s is more than two links away from the README", q.question, q.page)
		}
		body, err := os.ReadFile(q.page)
		if err != nil {
			t.Fatal(err)
		}
		if q.heading != "" && !slices.Contains(headings(text{q.page, string(body)}), q.heading) {
			t.Errorf("%s %s does not have the heading %q", q.question, q.page, q.heading)
		}
	}
}

// linksOf returns the files to which a document links.
func linksOf(t *testing.T, name string) []string {
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range link.FindAllStringSubmatch(string(body), -1) {
		if target := path.Join(path.Dir(name), m[1]); m[1] != "" && !strings.Contains(m[1], "://") {
			all = append(all, target)
		}
	}
	return all
}
