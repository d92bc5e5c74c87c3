package setup

import (
	"encoding/json"
	"fmt"
	"strings"
)

// document is the text of an agent.toml under construction.
type document struct {
	strings.Builder
	home string // shortened to "~"
}

// text returns the agent.toml.
func (p parts) text(home string) string {
	d := &document{home: home}
	d.text("# @" + p.agent.handle + ", as agentstateloop init has set it up. Change what you like.\n" +
		"# agent.toml.example has every setting; what is left out here has its default.\n")
	p.agent.write(d)
	if p.mail != nil {
		p.mail.write(d)
	}
	p.mesh.write(d)
	p.turn.write(d)
	if p.api != nil {
		p.api.write(d)
	}
	p.schedule.write(d)
	if p.mail != nil {
		d.section("replies")
		d.line("ack_after", "20s", "an answer that is ready by then comes without \"what do you need?\" before it")
	}
	return d.String()
}

func (d *document) text(s string) { d.WriteString(s) }

func (d *document) section(name string) { d.text("\n[" + name + "]\n") }

// line writes a key, its value and an optional comment.
func (d *document) line(key string, value any, comment string) {
	text := fmt.Sprintf("%s = %s", key, d.toml(value))
	if comment != "" {
		text = fmt.Sprintf("%-56s # %s", text, comment)
	}
	d.text(text + "\n")
}

// path is a value that is shortened if it is inside the home directory.
type path string

// toml writes a value as TOML. A JSON string is also a TOML string, except for the one control
// character that JSON does not escape.
func (d *document) toml(value any) string {
	switch v := value.(type) {
	case path:
		text := string(v)
		if rest, ok := strings.CutPrefix(text, d.home+"/"); ok && d.home != "" {
			text = "~/" + rest
		}
		return d.toml(text)
	case []string:
		var all []string
		for _, word := range v {
			all = append(all, d.toml(word))
		}
		return "[" + strings.Join(all, ", ") + "]"
	default:
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // encoding a string cannot fail
		return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007F`)
	}
}
