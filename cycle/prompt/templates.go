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
	"sync"
	"text/template"
)

//go:embed templates/*.tmpl
var builtIn embed.FS

// TemplateExt is the extension of a template file.
const TemplateExt = ".tmpl"

// parsed caches the built-in templates by layer name, because a backlog renders each of them at
// each turn.
var parsed sync.Map

// builtInTemplate returns the built-in template of a layer.
func builtInTemplate(name string) (*template.Template, error) {
	if t, ok := parsed.Load(name); ok {
		return t.(*template.Template), nil
	}
	text, err := builtIn.ReadFile("templates/" + name + TemplateExt)
	if err != nil {
		return nil, err
	}
	t, err := template.New(name).Parse(string(text))
	if err != nil {
		return nil, err
	}
	parsed.Store(name, t)
	return t, nil
}

// maxTemplate limits a user's template, in bytes.
const maxTemplate = 64 << 10

// Templates renders the layers.
type Templates struct {
	Folder string // of the user's own templates; "" without any
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
		rendered.Included = l.part != PartSummary && rendered.Text != "" && (d.Fresh || l.changes || d.Missed && l.name == layerHistory)
		all = append(all, rendered)
	}
	return all, nil
}

// SummaryQuestion renders the question that asks an agent to summarize its context.
func (t Templates) SummaryQuestion(d Data) (string, error) {
	l, err := t.layer(layerSummary, d)
	return l.Text, err
}

// layer renders a layer from the user's template, or from the built-in one if the user's
// template is missing or broken. Fault reports a broken template.
func (t Templates) layer(name string, d Data) (Layer, error) {
	l := Layer{Name: name, From: BuiltIn}
	ours, err := builtInTemplate(name)
	if err != nil {
		return l, fmt.Errorf("prompt layer %s: %w", name, err)
	}
	if file, own, err := t.own(name); err != nil {
		l.Fault = err.Error()
	} else if own != "" {
		if l.Text, err = executeText(file, own, d); err == nil {
			err = checkMessage(name, file, l.Text, d)
		}
		if err == nil {
			l.From = file
			return l, nil
		}
		l.Fault = err.Error()
	}
	l.Text, err = execute(ours, d)
	if err != nil {
		return l, fmt.Errorf("prompt layer %s: %w", name, err)
	}
	return l, nil
}

// own returns the user's template of a layer, or "" if it is missing.
func (t Templates) own(name string) (file, text string, err error) {
	if t.Folder == "" {
		return "", "", nil
	}
	file = filepath.Join(t.Folder, name+TemplateExt)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, "", nil
	}
	if err != nil {
		return file, "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTemplate+1))
	if err != nil {
		return file, "", err
	}
	if len(data) > maxTemplate {
		return file, "", fmt.Errorf("%s exceeds %d KiB: shorten it", file, maxTemplate>>10)
	}
	if len(data) == 0 {
		data = []byte("\n") // so an empty file makes an empty layer
	}
	return file, string(data), nil
}

// executeText executes a user's template. Its errors name the file.
func executeText(file, text string, d Data) (string, error) {
	t, err := template.New(file).Parse(text)
	if err != nil {
		return "", err
	}
	return execute(t, d)
}

func execute(t *template.Template, d Data) (string, error) {
	var b strings.Builder
	if err := t.Execute(&b, d); err != nil {
		return "", err
	}
	return strings.TrimSpace(b.String()), nil
}

// checkMessage returns an error that names the file if the message layer does not contain the
// message.
func checkMessage(name, file, text string, d Data) error {
	if name == layerMessage && !strings.Contains(text, d.Message) {
		return fmt.Errorf("%s does not contain the message: add {{.Message}}", file)
	}
	return nil
}

// Faults returns the problems of the folder of the user's templates: it cannot be read, or a
// file in it does not name a layer.
func (t Templates) Faults() []string {
	if t.Folder == "" {
		return nil
	}
	entries, err := os.ReadDir(t.Folder)
	if err != nil {
		return []string{fmt.Sprintf("the folder turn.prompts cannot be read, so the built-in prompts are used: %v", err)}
	}
	var faults []string
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), TemplateExt)
		if ours && !slices.Contains(Names(), name) {
			faults = append(faults, fmt.Sprintf("%s is not a layer: expected one of %s",
				filepath.Join(t.Folder, e.Name()), strings.Join(Names(), ", ")))
		}
	}
	return faults
}
