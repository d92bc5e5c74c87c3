package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/osfile"
)

// Write writes the secrets, creates the agent's folder and then writes the configuration to path.
// It writes each file in one step, durably: after an interrupt or a power loss every file is whole,
// and a configuration never lacks its secret. If Write fails, or ctx ends before the configuration
// is written, it removes the files and folders it created. created is false if a configuration
// already exists; Write keeps that one.
func (p Plan) Write(ctx context.Context, path string) (created bool, err error) {
	var made createdPaths
	defer func() {
		if !created {
			made.remove()
		}
	}()
	for _, secret := range p.Secrets {
		written, err := made.file(ctx, secret.File, secret.Value+"\n")
		if err == nil && !written {
			err = terminal.WithHint(fmt.Errorf("%s already exists", secret.File), "to use it, leave the secret out; to replace it, remove the file first")
		}
		if err != nil {
			return false, fmt.Errorf("write %s: %w", secret.What, err)
		}
	}
	if p.Workdir != "" {
		made.folders(p.Workdir)
		if err := osfile.MkdirAll(p.Workdir); err != nil {
			return false, fmt.Errorf("make workdir: %w", err)
		}
	}
	created, err = made.file(ctx, path, p.Text)
	if err != nil {
		return created, fmt.Errorf("write configuration: %w", err)
	}
	return created, nil
}

// createdPaths lists the paths of created files and folders in order of creation.
type createdPaths []string

// folders records the missing folders on the way to dir.
func (t *createdPaths) folders(dir string) {
	var missing []string
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	slices.Reverse(missing)
	*t = append(*t, missing...)
}

// file is writeNew, and records the files and folders it creates. It writes no file once ctx has
// ended.
func (t *createdPaths) file(ctx context.Context, path, text string) (written bool, err error) {
	if ctx.Err() != nil {
		return false, terminal.WithHint(errors.New("interrupted: nothing was written"), "run init again")
	}
	t.folders(filepath.Dir(path))
	written, err = writeNew(path, text)
	if written {
		*t = append(*t, path)
	}
	return written, err
}

// remove removes the recorded files and folders. It keeps folders with other files in them.
func (t *createdPaths) remove() {
	for _, path := range slices.Backward(*t) {
		_ = os.Remove(path) // leftovers do no harm
	}
}

// writeNew creates a file (0600) with text. It keeps an existing file, and then written is false.
func writeNew(path, text string) (written bool, err error) {
	return osfile.WriteNew(path, config.DraftPattern, 0o600, []byte(text))
}

// replace replaces the text of a file (0600) in one step, durably. If path is a link, it replaces
// the file that the link points to.
func replace(path, text string) error {
	return osfile.Replace(path, config.DraftPattern, 0o600, []byte(text))
}

// RemoveDrafts removes the drafts of configurations and secrets that killed processes left in dir.
func RemoveDrafts(dir string) { osfile.RemoveDrafts(dir, config.DraftPattern) }

// document is the text of an agent.toml under construction.
type document struct {
	strings.Builder
	home string // shortened to "~"
}

// text returns the agent.toml.
func (p parts) text(home string) string {
	d := &document{home: home}
	d.text("# @" + p.agent.handle + ", created by agentstateloop init. Edit as you like.\n" +
		"# agent.toml.example has every setting; those left out here have their defaults.\n")
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
		d.line("ack_after", "20s", "an answer within this time comes without \"what do you need?\" first")
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

// toml writes a value as TOML.
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
		return config.TOML(v)
	}
}
