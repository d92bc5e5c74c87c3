package commands

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/urfave/cli/v2"
)

// manualPages returns the pages of a release, by their files.
func manualPages(t *testing.T) map[string]string {
	t.Helper()
	p := testProgram()
	p.build = Build{Version: "v0.1.0", Date: "2026-11-28T18:11:54Z", Example: readFile(t, "../agent.toml.example")}
	pages := map[string]string{}
	for _, page := range p.pages() {
		pages[page.File()] = page.String()
	}
	return pages
}

// inRoff is a text in a page. It has the characters that names of commands and flags have.
func inRoff(text string) string { return strings.ReplaceAll(text, "-", `\-`) }

// TestManualIsComplete checks that the page of the program names each command, and that each
// command has a page with its text, its usage and its flags, and those of its subcommands.
func TestManualIsComplete(t *testing.T) {
	pages := manualPages(t)
	main := pages["man1/agentstateloop.1"]
	for _, c := range testProgram().app().Commands {
		page, found := pages["man1/agentstateloop-"+c.Name+".1"]
		if found == c.Hidden {
			t.Errorf("%s: hidden: %t, has a page: %t", c.Name, c.Hidden, found)
		}
		if c.Hidden {
			continue
		}
		for _, ref := range []string{`\fB` + inRoff(c.Name) + `\fR`, ".BR agentstateloop" + inRoff("-"+c.Name) + " (1)"} {
			if !strings.Contains(main, ref) {
				t.Errorf("the page of the program does not have %s", ref)
			}
		}
		if !strings.Contains(page, `"2026-11-28" "agentStateLoop v0.1.0"`) {
			t.Errorf("the page of %s lacks the date or the version", c.Name)
		}
		for _, command := range append([]*cli.Command{c}, c.Subcommands...) {
			checkManual(t, page, command)
		}
	}
}

// checkManual checks that a page has the words of a command's help, in their order, and its flags.
func checkManual(t *testing.T, page string, c *cli.Command) {
	t.Helper()
	if len(c.Subcommands) > 0 && c.Action == nil && len(c.Flags) > 0 {
		t.Errorf("%s: flags without an action", c.Name)
	}
	words := func(text string) string {
		text = strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\(ti`, "~", `\(ga`, "`", `\(ha`, "^", `\[u2026]`, "…", `\e`, `\`, `\&`, "").Replace(text)
		text = regexp.MustCompile(`(?m)^\.(P|RS 4|RE|EX|EE)$`).ReplaceAllString(text, "")
		return strings.Join(strings.Fields(text), " ")
	}
	for _, text := range []string{c.Usage, c.Description} {
		if !strings.Contains(words(page), words(text)) {
			t.Errorf("the page of %s lacks %q", c.Name, text)
		}
	}
	for _, f := range c.Flags {
		h := helpOf(f)
		if item := ".TP\n" + `\fB` + inRoff(h.flag) + `\fR` + h.value + "\n"; !strings.Contains(page, item) {
			t.Errorf("the page of %s lacks the flag %s", c.Name, h.head())
		}
	}
	if c.Action != nil && !strings.Contains(page, c.Name+`\fR [flags]`+strings.TrimRight(" "+inRoff(c.ArgsUsage), " ")+"\n") {
		t.Errorf("the page of %s lacks its usage", c.Name)
	}
}

// TestManualHasEverySetting compares the settings in agent.toml(5) with the keys that a TOML reader
// finds in the example, once its commented settings are active.
func TestManualHasEverySetting(t *testing.T) {
	example := readFile(t, "../agent.toml.example")
	active := regexp.MustCompile(`(?m)^# (\[\[?[a-z0-9._\-"]+\]\]?|[a-z_0-9]+ *= )`).ReplaceAllString(example, "$1")
	active = strings.ReplaceAll(active, `"my-model"`, "my-model")
	var all map[string]any
	meta, err := toml.Decode(active, &all)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	inline := map[string]bool{} // tables in one line
	for _, key := range meta.Keys() {
		parent := key[:len(key)-1].String()
		header := regexp.MustCompile(`(?m)^\[\[?` + regexp.QuoteMeta(key.String()) + `\]`).MatchString(active)
		if meta.Type(key...) == "Hash" && !header {
			inline[key.String()] = true
		}
		if !header && !inline[parent] {
			want[key.String()] = true
		}
	}
	got := map[string]bool{}
	section := ""
	page := strings.NewReplacer(`\-`, "-", `\(dq`, "").Replace(manualPages(t)["man5/agent.toml.5"])
	for _, m := range regexp.MustCompile(`(?m)^\.SS "\[+(.*?)\]+"$|^\.TP\n\\fB(?:# )?(\w+)\\fR = \S`).FindAllStringSubmatch(page, -1) {
		if m[1] != "" {
			section = m[1]
			continue
		}
		got[section+"."+m[2]] = true
	}
	if len(want) < 200 || !maps.Equal(got, want) {
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if !got[key] {
				t.Errorf("agent.toml(5) lacks %s", key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(got)) {
			if !want[key] {
				t.Errorf("agent.toml(5) has %s, but the example does not", key)
			}
		}
		t.Errorf("%d settings in agent.toml(5), %d in the example", len(got), len(want))
	}
}

// TestRealMan shows each page with man(1), with all warnings, and checks it with mandoc(1).
func TestRealMan(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for file, text := range manualPages(t) {
		files = append(files, writeFile(t, filepath.Join(dir, file), text))
	}
	for _, test := range []struct {
		program string
		args    []string
	}{
		{"man", []string{"--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"}}, // as lintian does
		{"mandoc", []string{"-T", "lint", "-W", "warning"}},
	} {
		t.Run(test.program, func(t *testing.T) {
			needPrograms(t, test.program)
			if runtime.GOOS != "linux" && test.program == "man" {
				t.Skip("only man-db lists warnings")
			}
			for _, file := range files {
				cmd := exec.Command(test.program, append(test.args, file)...)
				cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // man warns about a locale that is not installed
				var problems strings.Builder
				cmd.Stderr = &problems
				if test.program == "mandoc" {
					cmd.Stdout = &problems
				}
				if err := cmd.Run(); err != nil || problems.Len() > 0 {
					t.Errorf("%s: %v\n%s", file, err, &problems)
				}
			}
		})
	}
}
