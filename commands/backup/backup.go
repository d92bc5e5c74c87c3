// Package backup makes the archive of an agent and restores it (docs/decisions/0069-backup.md).
// Package archive has the format, and store.Snapshot the files of the state directory. This package
// adds the files that the configuration names, and knows where each file belongs on this machine.
package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/cycle/archive"
	"agentstateloop/cycle/prompt"
	"agentstateloop/internal/osfile"
	"agentstateloop/state/store"
)

// Backup makes archives of one agent.
type Backup struct {
	Loader     *config.Loader
	Agent      *cycle.Agent
	Recipients []age.Recipient // of the secrets; without one they are left out
	Final      bool            // the agent was moved, and works no more
}

// Write writes an archive to w. The error is store.ErrNoState if the agent has never polled, and
// cycle.ErrBusy if another process writes one.
func (b Backup) Write(ctx context.Context, w io.Writer) (archive.Manifest, error) {
	empty := archive.Manifest{}
	conf, err := b.Loader.Read(b.Agent.Config)
	if err != nil {
		return empty, err
	}
	home, err := b.Loader.Home()
	if err != nil {
		return empty, err
	}
	snapshot, err := b.Agent.Store.Snapshot(ctx, b.Loader.Now())
	if err != nil {
		return empty, err
	}
	if snapshot == nil {
		return empty, fmt.Errorf("another backup of @%s is being written: %w", b.Agent.Handle, cycle.ErrBusy)
	}
	defer snapshot.Close()
	host, _ := os.Hostname()
	names := naming{home: home, config: filepath.Dir(conf.Path)}
	head := archive.Header{
		Program: b.Loader.Version, Handle: b.Agent.Handle, Host: host, Made: b.Loader.Now().UTC().Truncate(time.Second),
		Serial: snapshot.State.Serial, Final: b.Final, Home: home,
		Config: names.orPath(config.Named{Path: conf.Path}), State: names.orPath(conf.StateDir()),
	}
	out, err := archive.NewWriter(untilDone{ctx, w}, head)
	if err != nil {
		return empty, err
	}
	c := collection{Backup: b, config: conf, naming: names, out: out}
	return c.write(snapshot)
}

// untilDone is a writer that fails after ctx has ended.
type untilDone struct {
	ctx context.Context
	io.Writer
}

func (w untilDone) Write(data []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(data)
}

// naming gives files their names in an archive.
type naming struct{ home, config string }

// name returns the name of a file that is below the home directory or, with a relative path, below
// the folder of the configuration. It returns "" for any other file.
func (n naming) name(file config.Named) string {
	if rel, err := filepath.Rel(n.config, file.Path); err == nil && file.Relative && filepath.IsLocal(rel) {
		return path.Join(archive.ConfigFolder, filepath.ToSlash(rel))
	}
	if rel, err := filepath.Rel(n.home, file.Path); err == nil && filepath.IsLocal(rel) && rel != "." {
		return path.Join(archive.HomeFolder, filepath.ToSlash(rel))
	}
	return ""
}

// orPath returns the name of a file, or else its path.
func (n naming) orPath(file config.Named) string {
	if name := n.name(file); name != "" {
		return name
	}
	return file.Path
}

// place returns where the file of a name belongs on this machine, or "" if it has no place.
func (n naming) place(name string) string {
	folder, rest, _ := strings.Cut(name, "/")
	switch folder {
	case archive.HomeFolder:
		return filepath.Join(n.home, filepath.FromSlash(rest))
	case archive.ConfigFolder:
		return filepath.Join(n.config, filepath.FromSlash(rest))
	}
	return ""
}

// collection adds the files of an agent to an archive.
type collection struct {
	Backup
	config *config.Config
	naming naming
	out    *archive.Writer

	added   []string
	leftOut []string
	secrets []archive.Secret
	sealed  map[string][]byte
}

func (c *collection) write(snapshot *store.Snapshot) (archive.Manifest, error) {
	text, keys, err := c.config.WithoutValues()
	if err != nil {
		return archive.Manifest{}, err
	}
	c.sealed = map[string][]byte{archive.ConfigName: []byte(c.config.Text())}
	for _, key := range keys {
		c.secrets = append(c.secrets, archive.Secret{Key: key})
	}
	if err := c.out.Add(archive.ConfigName, int64(len(text)), false, strings.NewReader(text)); err != nil {
		return archive.Manifest{}, err
	}
	for _, f := range snapshot.Files {
		if err := c.addSnapshot(snapshot, f); err != nil {
			return archive.Manifest{}, err
		}
	}
	for _, name := range snapshot.Skipped {
		c.leave(c.Agent.Store.Path(name), "it is not a regular file, or cannot be read")
	}
	for _, f := range c.config.NamedFiles() {
		if err := c.addNamed(f); err != nil {
			return archive.Manifest{}, err
		}
	}
	if err := c.findSecrets(); err != nil {
		return archive.Manifest{}, err
	}
	if len(c.Recipients) > 0 {
		data, err := archive.Seal(c.sealed, c.Recipients)
		if err != nil {
			return archive.Manifest{}, err
		}
		if err := c.out.Add(archive.SecretsName, int64(len(data)), false, bytes.NewReader(data)); err != nil {
			return archive.Manifest{}, err
		}
	}
	return c.out.Close(c.secrets, len(c.Recipients) > 0, c.leftOut)
}

func (c *collection) leave(file, reason string) {
	c.leftOut = append(c.leftOut, file+": "+reason)
}

func (c *collection) addSnapshot(snapshot *store.Snapshot, file store.SnapshotFile) error {
	f, err := snapshot.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	name := path.Join(archive.StateFolder, file.Name)
	if !archive.ValidName(name) {
		c.leave(c.Agent.Store.Path(file.Name), "its name cannot be in an archive")
		return nil
	}
	return c.out.Add(name, file.Size, false, f)
}

// Limits on the files that a configuration names.
const (
	maxNamed  = 1 << 20 // bytes of a file: a prompt or a script is smaller, and a larger program is installed otherwise
	maxFolder = 1000    // templates of a folder
)

// addNamed adds a file, or the templates of a folder, that the configuration names.
func (c *collection) addNamed(n config.Named) error {
	name := c.naming.name(n)
	if name == "" {
		c.leave(n.Path, n.Key+" names it, and it is outside your home directory")
		return nil
	}
	info, err := os.Stat(n.Path)
	if err != nil {
		c.leave(n.Path, n.Key+" names it, and it does not exist")
		return nil
	}
	if !info.IsDir() {
		return c.addFile(name, n.Path)
	}
	entries, err := os.ReadDir(n.Path)
	if err != nil {
		c.leave(n.Path, "it cannot be read")
		return nil
	}
	// The other files of the folder are not read, and may be configurations and secrets.
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return path.Ext(e.Name()) != prompt.TemplateExt || !e.Type().IsRegular() })
	if len(entries) > maxFolder {
		c.leave(n.Path, fmt.Sprintf("it has more than %d templates", maxFolder))
		entries = entries[:maxFolder]
	}
	for _, e := range entries {
		if err := c.addFile(path.Join(name, e.Name()), filepath.Join(n.Path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// addFile adds a file by its path, which may be a link.
func (c *collection) addFile(name, file string) error {
	if slices.Contains(c.added, name) {
		return nil
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		c.leave(file, "it cannot be read")
		return nil
	}
	data, err := osfile.ReadFile(real, maxNamed)
	switch {
	case errors.Is(err, osfile.ErrTooLarge):
		c.leave(file, fmt.Sprintf("it is larger than %d MiB", maxNamed>>20))
		return nil
	case err != nil:
		c.leave(file, "it cannot be read")
		return nil
	}
	c.added = append(c.added, name)
	return c.out.Add(name, int64(len(data)), config.CanRun(real), bytes.NewReader(data))
}

// findSecrets collects the secrets of the agent. Without recipients it only names them.
func (c *collection) findSecrets() error {
	for _, n := range c.config.SecretFiles() {
		name := c.naming.name(n)
		if name == "" {
			c.leave(n.Path, n.Key+" names it, and it is outside your home directory")
			continue
		}
		data, err := config.ReadPrivate(n.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil && len(c.Recipients) > 0 {
			return fmt.Errorf("read secret: %w", err)
		}
		c.addSecret(archive.Secret{Key: n.Key, Name: name}, data)
	}
	for section, file := range c.config.Tokens() {
		if data, err := config.ReadPrivate(file); err == nil {
			c.addSecret(archive.Secret{Key: section + ".oauth2", Name: path.Join(archive.TokenFolder, section)}, data)
		}
	}
	if data, err := config.ReadPrivate(c.Agent.Store.Path(store.IDKeyFile)); err == nil {
		c.addSecret(archive.Secret{Key: store.IDKeyFile, Name: path.Join(archive.StateFolder, store.IDKeyFile)}, data)
	}
	return nil
}

func (c *collection) addSecret(s archive.Secret, data []byte) {
	c.secrets = append(c.secrets, s)
	c.sealed[s.Name] = data
}
