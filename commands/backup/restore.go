package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/archive"
	"agentstateloop/cycle/prompt"
	"agentstateloop/internal/osfile"
	"agentstateloop/state/store"
)

// Restore puts the files of an archive in their places.
type Restore struct {
	Loader     *config.Loader
	Identities []age.Identity // that decrypt the secrets; without one they are left out
	Config     string         // the path of agent.toml; "": as it was, below the home directory
	StateDir   string         // the state directory; "": as it was, below the home directory

	Fleet bool // also an agent with several hosts, whose servers may have a newer state

	// Ask asks for the passphrase of the secrets if there are no Identities. It returns nil to restore
	// without them, and may be nil.
	Ask func() (age.Identity, error)
}

// Restored describes a restored agent.
type Restored struct {
	Manifest archive.Manifest
	Config   string           // the path of agent.toml
	StateDir string           //
	Missing  []archive.Secret // secrets that the agent lacks; Name is a path here, or ""
	Moved    int              // values of agent.toml that were changed to the new home directory
	Paths    []string         // absolute paths in agent.toml that do not exist
}

// File restores the archive in a file, or in stdin for "-". Before it changes anything, it checks that
// the archive is whole and every place is free. agent.toml comes last: if a restore is killed, the
// agent does not poll, and the restore can be repeated.
func (r Restore) File(ctx context.Context, file string, stdin io.Reader) (Restored, error) {
	in, err := open(file, stdin)
	if err != nil {
		return Restored{}, err
	}
	defer in.Close()
	home, err := r.Loader.Home()
	if err != nil {
		return Restored{}, err
	}
	p := placing{Restore: r, from: file, naming: naming{home: home}}
	defer p.close()
	if p.manifest, err = archive.Unpack(untilDoneReader{ctx, in}, func(h archive.Header) (string, error) { return p.begin(ctx, h) }); err != nil {
		return Restored{}, err
	}
	if err := p.prepare(ctx); err != nil {
		return Restored{}, err
	}
	if err := ctx.Err(); err != nil {
		return Restored{}, err
	}
	if err := p.makeWorkdir(); err != nil {
		return Restored{}, err
	}
	if err := p.put(); err != nil {
		return Restored{}, err
	}
	return p.result(), nil
}

// untilDoneReader is a reader that fails after ctx has ended.
type untilDoneReader struct {
	ctx context.Context
	io.Reader
}

func (r untilDoneReader) Read(data []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(data)
}

// placing is one restore.
type placing struct {
	Restore
	from string

	naming          naming
	configFile, dir string   // the places of agent.toml and of the state directory
	stage           *os.File // the folder with the unpacked files, locked
	made            []string // folders that this restore made
	manifest        archive.Manifest
	secrets         map[string][]byte
	text            string // of agent.toml
	moved           int
	conf            *config.Config
	files           []placedFile
	done            bool
}

// placedFile is a file that belongs outside the state directory.
type placedFile struct {
	place   string
	data    []byte
	program bool
}

// begin chooses the places, checks that they are free, and makes the folder for the files: next to
// the state directory, which is renamed from there.
func (p *placing) begin(ctx context.Context, h archive.Header) (string, error) {
	if err := p.choosePlaces(h); err != nil {
		return "", err
	}
	if _, err := os.Lstat(p.configFile); err == nil {
		return "", terminal.Usagef("restore to another place with --config FILE and --state-dir DIR, or remove the agent that is there: `"+terminal.Program+" uninstall --purge`", "%s already exists", p.configFile)
	}
	for _, known := range p.Loader.Known(ctx) {
		if known.Handle == h.Handle {
			return "", terminal.Usagef("an agent works in one place: remove that one first with `"+terminal.Program+" @"+h.Handle+" uninstall --purge`", "@%s already exists on this machine, in %s", h.Handle, known.Path)
		}
	}
	if err := p.makeStage(); err != nil {
		return "", err
	}
	return p.stage.Name(), p.checkStateDir(h)
}

// choosePlaces maps the places of the archive to this machine.
func (p *placing) choosePlaces(h archive.Header) error {
	if err := p.fromHere(h.Config, "--config FILE", "configuration", &p.Config); err != nil {
		return err
	}
	configFile, err := filepath.Abs(p.Config)
	if err != nil {
		return err
	}
	p.configFile = configFile
	p.naming.config = filepath.Dir(configFile)
	if err := p.fromHere(h.State, "--state-dir DIR", "state directory", &p.StateDir); err != nil {
		return err
	}
	p.dir, err = filepath.Abs(p.StateDir)
	return err
}

// fromHere sets a place that no flag has set.
func (p *placing) fromHere(name, flag, what string, to *string) error {
	if *to != "" {
		return nil
	}
	if archive.ValidName(name) {
		*to = p.naming.place(name)
	}
	if *to == "" {
		return terminal.Usagef("name its new place with "+flag, "the %s was in %q, which is outside the home directory", what, name)
	}
	return nil
}

// makeStage makes the folder for the unpacked files, and locks it. It removes the files of a restore
// that was killed.
func (p *placing) makeStage() error {
	dir := p.dir + ".restoring"
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		if _, err := os.Lstat(parent); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		p.made = append(p.made, parent)
	}
	if err := osfile.MkdirAll(dir); err != nil {
		return err
	}
	if err := osfile.Folder(dir); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return fmt.Errorf("another restore to %s is under way: %w", p.dir, cycle.ErrBusy)
	}
	p.stage = f
	return nil
}

// checkStateDir checks that the state directory is free, and empties the stage. A restore that was
// killed between the state directory and agent.toml has left a state directory with the commit that
// its record names: no process has used it since, so it is removed.
func (p *placing) checkStateDir(h archive.Header) error {
	if err := osfile.Folder(p.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	record, _ := os.ReadFile(p.stageFile(recordName))
	if entries, err := os.ReadDir(p.dir); err == nil && len(entries) > 0 {
		s, err := (&store.Store{Dir: p.dir, Agent: h.Handle}).Read()
		if err != nil || len(record) == 0 || string(record) != recordOf(s.Seed, s.Serial) {
			return terminal.Usagef("restore to another place with --state-dir DIR, or move that folder away", "%s already exists and is not empty", p.dir)
		}
		if err := osfile.RemoveAll(p.dir); err != nil {
			return err
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(p.stage.Name())
	for _, e := range entries {
		err = errors.Join(err, osfile.RemoveAll(p.stageFile(e.Name())))
	}
	return err
}

// recordName is a file in the stage that names the commit of the restored state.
const recordName = "restored"

func recordOf(seed string, serial uint64) string { return fmt.Sprintf("%s %d", seed, serial) }

func (p *placing) stageFile(name string) string {
	return filepath.Join(p.stage.Name(), filepath.FromSlash(name))
}

// prepare checks everything in the stage, and marks the state as restored.
func (p *placing) prepare(ctx context.Context) error {
	if err := p.openSecrets(); err != nil {
		return err
	}
	if err := p.readConfig(); err != nil {
		return err
	}
	if err := p.findFiles(); err != nil {
		return err
	}
	return p.mark(ctx)
}

// openSecrets decrypts the secrets.
func (p *placing) openSecrets() (err error) {
	if !p.manifest.Sealed {
		return nil
	}
	if len(p.Identities) == 0 && p.Ask != nil && archive.ByPassphrase(p.stage.Name()) {
		identity, err := p.Ask()
		if err != nil {
			return err
		}
		if identity != nil {
			p.Identities = append(p.Identities, identity)
		}
	}
	if len(p.Identities) == 0 {
		return nil
	}
	p.secrets, err = archive.OpenSecrets(p.stage.Name(), p.Identities)
	if errors.Is(err, archive.ErrWrongKey) {
		return terminal.Usagef("try again; without --identity and --passphrase-file, everything else is restored", "%v", err)
	}
	return err
}

// readConfig reads agent.toml and changes its places.
func (p *placing) readConfig() error {
	text, ok := p.secrets[archive.ConfigName]
	if !ok {
		var err error
		if text, err = osfile.ReadFile(p.stageFile(archive.ConfigName), 1<<20); err != nil {
			return fmt.Errorf("%w: %v", archive.ErrNotWhole, err)
		}
	}
	p.text = string(text)
	var err error
	if was := p.manifest.Home; was != p.naming.home && was != "" && was != "/" {
		if p.text, p.moved, err = config.MovedHome(p.text, was, p.naming.home); err != nil {
			return err
		}
	}
	// Its keys count, not its values: a value that the backup lacks is set later.
	whole := strings.ReplaceAll(p.text, config.NotInBackup, "-")
	if p.conf, err = p.Loader.Parse(p.configFile, whole); err != nil {
		return err
	}
	if p.conf.StateDir().Path != p.dir {
		if p.text, err = config.WithStateDir(p.text, p.dir); err != nil {
			return err
		}
		if p.conf, err = p.Loader.Parse(p.configFile, strings.ReplaceAll(p.text, config.NotInBackup, "-")); err != nil {
			return err
		}
	}
	if p.conf.File.Agent.Handle != p.manifest.Handle || p.conf.StateDir().Path != p.dir {
		return fmt.Errorf("%w: its agent.toml belongs to @%s in %s", archive.ErrNotWhole, p.conf.File.Agent.Handle, p.conf.StateDir().Path)
	}
	if p.conf.Has("fleet") && !p.Fleet {
		return terminal.Usagef("take agent.toml and the secrets from another host, and run `"+terminal.Program+" init`. If the servers have lost the state: restore with --no-start, then `"+terminal.Program+" fleet join`",
			"@%s lives on several hosts: the servers have its newest state, and the archive an old one", p.manifest.Handle)
	}
	return nil
}

// findFiles lists the files outside the state directory, and checks that their places are free or
// have the same content.
func (p *placing) findFiles() error {
	for _, f := range p.manifest.Files {
		if f.Name == archive.ConfigName || f.Name == archive.SecretsName || strings.HasPrefix(f.Name, archive.StateFolder+"/") {
			continue
		}
		data, err := osfile.ReadFile(p.stageFile(f.Name), maxNamed)
		if err != nil {
			return err
		}
		if err := p.addFile(f.Name, data, f.Program); err != nil {
			return err
		}
	}
	for name, data := range p.secrets {
		if name == archive.ConfigName || name == statePath(store.IDKeyFile) {
			continue
		}
		if err := p.addFile(name, data, false); err != nil {
			return err
		}
	}
	var taken []string
	p.files = slices.DeleteFunc(p.files, func(f placedFile) bool {
		osfile.RemoveDrafts(filepath.Dir(f.place), config.DraftPattern) // of a killed process
		there, err := osfile.ReadFile(f.place, maxNamed)
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		if err != nil || !bytes.Equal(there, f.data) {
			taken = append(taken, f.place)
		}
		return true
	})
	if len(taken) > 0 {
		slices.Sort(taken)
		return terminal.Usagef("move the existing files away", "files with other content already exist: %s", strings.Join(taken, ", "))
	}
	return nil
}

func statePath(name string) string { return archive.StateFolder + "/" + name }

func (p *placing) addFile(name string, data []byte, program bool) error {
	place := p.naming.place(name)
	if section, ok := strings.CutPrefix(name, archive.TokenFolder+"/"); ok {
		if place = p.conf.Tokens()[section]; place == "" {
			return nil // the next poll gets another token
		}
	}
	if place == "" || !strings.HasPrefix(name, archive.TokenFolder+"/") && !p.named(place) {
		return fmt.Errorf("%w: its agent.toml does not name %s", archive.ErrNotWhole, name)
	}
	p.files = append(p.files, placedFile{place, data, program})
	return nil
}

// named reports whether the configuration names a file, or the folder of a template. An archive must
// not put other files into a home directory.
func (p *placing) named(file string) bool {
	return slices.ContainsFunc(slices.Concat(p.conf.NamedFiles(), p.conf.SecretFiles()), func(n config.Named) bool {
		return n.Path == file || n.Path == filepath.Dir(file) && filepath.Ext(file) == prompt.TemplateExt
	})
}

// mark checks the state in the stage, and commits that it was restored.
func (p *placing) mark(ctx context.Context) error {
	st := &store.Store{Dir: p.stageFile(archive.StateFolder), Agent: p.manifest.Handle}
	s, err := st.Read()
	if err != nil {
		return err
	}
	// Read rebuilds a state that is missing or damaged.
	var head struct{ Serial uint64 }
	if data, err := os.ReadFile(st.Path("state.json")); err != nil || json.Unmarshal(data, &head) != nil || head.Serial == 0 {
		return fmt.Errorf("%w: it has no valid state.json", archive.ErrNotWhole)
	}
	if s.Serial != p.manifest.Serial || head.Serial != s.Serial {
		return fmt.Errorf("%w: its state has the serial %d, not %d", archive.ErrNotWhole, head.Serial, p.manifest.Serial)
	}
	if key, ok := p.secrets[statePath(store.IDKeyFile)]; ok {
		if err := st.Keep(store.IDKeyFile, bytes.NewReader(key)); err != nil {
			return err
		}
	}
	a, errs := p.Loader.Wire(p.conf)
	if a == nil {
		return errs[0]
	}
	a.Store, a.Seat, a.Mesh = st, nil, nil // it must not announce itself before the files are in place
	if p.manifest.Final {
		err = a.MarkStays(ctx)
	} else {
		err = a.MarkRestored(ctx, p.manifest.Made, p.source())
	}
	if err != nil {
		return err
	}
	if s, err = st.Read(); err != nil {
		return err
	}
	return p.write(p.stageFile(recordName), []byte(recordOf(s.Seed, s.Serial)), false)
}

// source names the archive, for the history.
func (p *placing) source() string {
	if p.from == "-" {
		return "an archive of " + p.manifest.Host
	}
	return filepath.Base(p.from)
}

// put moves everything to its place, agent.toml last.
func (p *placing) put() error {
	if err := os.Remove(p.dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty folder
		return err
	}
	if err := os.Rename(p.stageFile(archive.StateFolder), p.dir); err != nil {
		return err
	}
	if err := osfile.SyncDir(filepath.Dir(p.dir)); err != nil {
		return err
	}
	for _, f := range p.files {
		if err := p.write(f.place, f.data, f.program); err != nil {
			return err
		}
	}
	if err := p.write(p.configFile, []byte(p.text), false); err != nil {
		return err
	}
	p.done = true
	return nil
}

// write creates a file in one step, durably.
func (p *placing) write(file string, data []byte, program bool) error {
	mode := fs.FileMode(0o600)
	if program {
		mode = 0o700
	}
	written, err := osfile.WriteNew(file, config.DraftPattern, mode, data)
	if err == nil && !written {
		err = fmt.Errorf("%s already exists", file)
	}
	return err
}

// close removes the stage. After a failure it removes the folders that the restore made, if they are
// empty.
func (p *placing) close() {
	if p.stage == nil {
		return
	}
	if p.done || !p.placedState() {
		_ = osfile.RemoveAll(p.stage.Name())
	}
	p.stage.Close()
	if !p.done {
		for _, dir := range p.made {
			_ = os.Remove(dir)
		}
	}
}

// placedState reports whether the state directory is in place, and its record in the stage lets the
// next restore replace it.
func (p *placing) placedState() bool {
	_, err := os.Lstat(p.stageFile(archive.StateFolder))
	_, record := os.Lstat(p.stageFile(recordName))
	return errors.Is(err, fs.ErrNotExist) && record == nil
}

// makeWorkdir makes the agent's folder below the home directory, which is not in the archive. Without it
// the agent could start no turn.
func (p *placing) makeWorkdir() error {
	dir := p.conf.Workdir()
	if below, err := filepath.Rel(p.naming.home, dir); dir == "" || err != nil || !filepath.IsLocal(below) {
		return nil
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p.manifest.LeftOut = append(p.manifest.LeftOut, dir+": the agent's folder is not part of a backup, and an empty one was made")
	return os.MkdirAll(dir, 0o700)
}

// result describes the restored agent.
func (p *placing) result() Restored {
	r := Restored{Manifest: p.manifest, Config: p.configFile, StateDir: p.dir, Moved: p.moved, Paths: config.MissingPaths(p.text)}
	for _, s := range p.manifest.Secrets {
		if s.Name == "" && p.secrets != nil {
			continue
		}
		if _, restored := p.secrets[s.Name]; restored && s.Name != "" {
			continue
		}
		if strings.HasPrefix(s.Name, archive.TokenFolder+"/") {
			continue // the next poll gets another token
		}
		place := p.naming.place(s.Name)
		if _, err := os.Lstat(place); place != "" && err == nil {
			continue // it is on this machine
		}
		r.Missing = append(r.Missing, archive.Secret{Key: s.Key, Name: place})
	}
	return r
}
