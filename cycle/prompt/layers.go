package prompt

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// Layer is one part of a prompt, rendered.
type Layer struct {
	Name  string `json:"name"`
	Part  string `json:"part"`  // PartSystem, PartMessage or PartSummary
	From  string `json:"from"`  // the template: BuiltIn, or a file
	Told  bool   `json:"told"`  // false: a session that goes on has been told, or there is nothing to tell
	Text  string `json:"text"`  // without white space around it
	Fault string `json:"fault"` // why the user's own template was passed over; "" if it was not
}

// The parts of a prompt. What PartSystem holds was written by us and the
// operator, save for the agent's own memory; a sender's words are in
// PartMessage only. PartSummary is the question with which a context is
// compacted.
const (
	PartSystem  = "system"
	PartMessage = "message"
	PartSummary = "summary"
)

// BuiltIn is where a layer comes from that the user has no template for.
const BuiltIn = "built-in"

// The layers that something asks for by name.
const (
	layerMessage = "message"
	layerSummary = "summary"
)

// layers are all layers, in the order in which they are told. Those that change
// from one message to the next are told to a session that goes on, too. The
// note of a reset comes first: that is what `reset` promises.
var layers = [...]struct {
	name, part string
	changes    bool
}{
	{"reset", PartSystem, false},
	{"identity", PartSystem, false},
	{"rules", PartSystem, false},
	{"trust", PartSystem, true},
	{"phase", PartSystem, false},
	{"budget", PartSystem, true},
	{"memory", PartSystem, false},
	{"wake", PartMessage, true},
	{"history", PartMessage, false},
	{layerMessage, PartMessage, true},
	{layerSummary, PartSummary, false},
}

// Names are the names of all layers, in their order.
func Names() []string {
	var names []string
	for _, l := range layers {
		names = append(names, l.name)
	}
	return names
}

//go:embed templates/*.tmpl
var builtIn embed.FS

// templateExt ends the name of a layer's file.
const templateExt = ".tmpl"

// longestTemplate bounds, in bytes, a template of the user's.
const longestTemplate = 64 << 10

// Templates renders the layers.
type Templates struct {
	Folder string // of the user's own templates; "" = none
}

// layer renders one layer: by the user's template, where there is one that
// works, else by the built-in one. A template that is broken harms nothing; why
// it was passed over is in the layer.
func (t Templates) layer(name string, d Data) (Layer, error) {
	l := Layer{Name: name, From: BuiltIn}
	text, err := builtIn.ReadFile("templates/" + name + templateExt)
	if err != nil {
		return l, fmt.Errorf("prompt layer %s: %w", name, err)
	}
	if file, own, err := t.own(name); err != nil {
		l.Fault = err.Error()
	} else if own != "" {
		if l.Text, err = execute(file, own, d); err == nil {
			err = shows(name, l.Text, d)
		}
		if err == nil {
			l.From = file
			return l, nil
		}
		l.Fault = err.Error()
	}
	l.Text, err = execute(name, string(text), d)
	if err != nil {
		return l, fmt.Errorf("prompt layer %s: %w", name, err)
	}
	return l, nil
}

// own reads the user's template of a layer; "" where he has none.
func (t Templates) own(name string) (file, text string, err error) {
	if t.Folder == "" {
		return "", "", nil
	}
	file = filepath.Join(t.Folder, name+templateExt)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, "", nil
	}
	if err != nil {
		return file, "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, longestTemplate+1))
	if err != nil {
		return file, "", err
	}
	if len(data) > longestTemplate {
		return file, "", fmt.Errorf("%s has more than %d KiB: shorten it", file, longestTemplate>>10)
	}
	if len(data) == 0 {
		data = []byte("\n") // an empty file leaves its layer out
	}
	return file, string(data), nil
}

// execute fills a template in. Its name is told in errors.
func execute(name, text string, d Data) (string, error) {
	t, err := template.New(name).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, d); err != nil {
		return "", err
	}
	return strings.TrimSpace(b.String()), nil
}

// shows refuses a layer without which the turn has no sense.
func shows(name, text string, d Data) error {
	if name == layerMessage && !strings.Contains(text, d.Message) {
		return errors.New("it does not show the message: put {{.Message}} into it")
	}
	return nil
}

// Faults says what is wrong with the folder of the user's templates as a
// whole: it is missing, or holds files that are no layers.
func (t Templates) Faults() []string {
	if t.Folder == "" {
		return nil
	}
	entries, err := os.ReadDir(t.Folder)
	if err != nil {
		return []string{fmt.Sprintf("the folder of turn.prompts cannot be read, and the built-in prompts are used: %v", err)}
	}
	var faults []string
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), templateExt)
		if ours && !slices.Contains(Names(), name) {
			faults = append(faults, fmt.Sprintf("%s is no layer: there are %s",
				filepath.Join(t.Folder, e.Name()), strings.Join(Names(), ", ")))
		}
	}
	return faults
}

// Layers renders every layer.
func (t Templates) Layers(d Data) ([]Layer, error) {
	var all []Layer
	for _, l := range layers {
		rendered, err := t.layer(l.name, d)
		if err != nil {
			return nil, err
		}
		rendered.Part = l.part
		rendered.Told = l.part != PartSummary && rendered.Text != "" && (d.Fresh || l.changes)
		all = append(all, rendered)
	}
	return all, nil
}

// SummaryQuestion is the question with which a context is compacted.
func (t Templates) SummaryQuestion(d Data) (string, error) {
	l, err := t.layer(layerSummary, d)
	return l.Text, err
}

// Prompt is what an agent is told for one turn.
type Prompt struct {
	System string // context/system.md
	Stdin  string
}

// Join puts the layers of a turn together. Where the runner takes its system
// prompt apart from the message, standard input has the message alone; else it
// has both.
func Join(all []Layer, apart bool) Prompt {
	var system, stdin []string
	for _, l := range all {
		if l.Text == "" || l.Part == PartSummary {
			continue
		}
		if l.Part == PartSystem {
			system = append(system, l.Text)
		}
		if l.Told && (!apart || l.Part == PartMessage) {
			stdin = append(stdin, l.Text)
		}
	}
	return Prompt{System: joined(system), Stdin: joined(stdin)}
}

func joined(texts []string) string { return strings.Join(texts, "\n\n") + "\n" }
