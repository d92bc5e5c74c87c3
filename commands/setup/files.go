package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/durable"
)

// Write writes the secrets, makes the agent's folder and then writes the
// configuration to path, each in one step, durably: an interrupt or a power loss leaves
// whole files, and no configuration without its secret. created is false if a configuration
// exists by now; it is kept.
func (p Plan) Write(path string) (created bool, err error) {
	for _, secret := range p.Secrets {
		written, err := writeNew(secret.File, secret.Value+"\n")
		if err == nil && !written {
			err = terminal.WithHint(fmt.Errorf("%s exists already", secret.File), "to use it, do not give the secret again; to replace it, remove the file first")
		}
		if err != nil {
			return false, fmt.Errorf("write %s: %w", secret.What, err)
		}
	}
	if p.Workdir != "" {
		if err := durable.MkdirAll(p.Workdir); err != nil {
			return false, fmt.Errorf("make workdir: %w", err)
		}
	}
	created, err = writeNew(path, p.Text)
	if err != nil {
		return false, fmt.Errorf("write configuration: %w", err)
	}
	return created, nil
}

// writeNew makes a file (0600) with text in one step, durably, and its folder
// (0700). A file that exists stays as it is, and written is false.
func writeNew(path, text string) (written bool, err error) {
	dir := filepath.Dir(path)
	if err := durable.MkdirAll(dir); err != nil {
		return false, err
	}
	f, err := os.CreateTemp(dir, ".init-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	_, err = io.WriteString(f, text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, err
	}
	// A rename would replace a file that was made just now.
	if err := os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, durable.SyncDir(dir)
}
