package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/backup"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/archive"
	"agentstateloop/state/store"
)

// sealOptions are the flags that encrypt the secrets of an archive.
type sealOptions struct {
	secrets        bool
	recipients     []string
	passphraseFile string
}

func (o *sealOptions) flags() []cli.Flag {
	return []cli.Flag{
		switchFlag(&o.secrets, "secrets", "add the secrets, encrypted with age"),
		repeatedFlag(&o.recipients, "recipient", "`KEY`: public key that decrypts them; may be repeated"),
		textFlag(&o.passphraseFile, "passphrase-file", "`FILE`: file (0600) with a passphrase instead"),
	}
}

// chosen returns the recipients of the secrets, or none without --secrets. Without a recipient it
// asks for a passphrase.
func (o *sealOptions) chosen(c *call) ([]age.Recipient, error) {
	switch {
	case !o.secrets && (len(o.recipients) > 0 || o.passphraseFile != ""):
		return nil, terminal.Usagef("add --secrets", "--recipient and --passphrase-file work only with --secrets")
	case !o.secrets:
		return nil, nil
	case len(o.recipients) > 0 && o.passphraseFile != "":
		return nil, terminal.Usagef("use only one of them", "--recipient and --passphrase-file both encrypt the secrets")
	case len(o.recipients) > 0:
		all, err := archive.Recipients(o.recipients)
		if err != nil {
			return nil, terminal.Usagef("`age-keygen` makes a key pair", "--recipient: %v", err)
		}
		return all, nil
	}
	passphrase, err := o.passphrase(c)
	if err != nil {
		return nil, err
	}
	r, err := age.NewScryptRecipient(passphrase)
	return []age.Recipient{r}, err
}

func (o *sealOptions) passphrase(c *call) (string, error) {
	if o.passphraseFile != "" {
		return readPassphrase(c, o.passphraseFile)
	}
	asker := terminal.NewAsker(c.stdin, &c.out, c.loader.Secrets)
	if !asker.CanAsk() {
		return "", terminal.Usagef("name a public key of age with --recipient, or a file with --passphrase-file", "--secrets needs a passphrase, and standard input is not a terminal")
	}
	passphrase, err := askPassphrase(c, asker, "a passphrase for the secrets (not shown): ")
	if err != nil {
		return "", err
	}
	again, err := askPassphrase(c, asker, "the passphrase again: ")
	if err == nil && again != passphrase {
		err = terminal.Usagef("run it again", "the two passphrases differ; nothing was written")
	}
	return passphrase, err
}

func askPassphrase(c *call, asker *terminal.Asker, prompt string) (string, error) {
	text, err := asker.Secret(c.ctx, prompt)
	if err != nil {
		return "", interruptedHere()
	}
	if text == "" {
		return "", terminal.Usagef("run it again", "the passphrase is empty; nothing was written")
	}
	c.loader.Secrets.Learn("passphrase", text)
	return text, nil
}

// interruptedHere is the error of a question that was interrupted.
func interruptedHere() error {
	return terminal.WithHint(coded(codeInterrupted, errors.New("interrupted: nothing was written")), "run it again")
}

func readPassphrase(c *call, file string) (string, error) {
	text, err := c.loader.SecretFile(file)(c.ctx)
	if err != nil {
		return "", terminal.Usagef("it must be a file of yours, with mode 0600 and one line of text", "--passphrase-file: %v", err)
	}
	return text, nil
}

// backupOptions are the flags of backup.
type backupOptions struct{ sealOptions }

func backupCommand(p *program) *cli.Command {
	var o backupOptions
	return &cli.Command{
		Name:      "backup",
		Usage:     "write the agent to one file",
		ArgsUsage: "FILE|-",
		Description: `Writes a tar.gz with the configuration, the state, the history, waiting messages
and unsent mail, prompts, scripts and the working memory. It is consistent also
while polls and turns run, which do not wait for it. It never replaces a file.
With - it writes to standard output.

Passwords, tokens and keys are left out, and so are the values of [turn] env.
With --secrets they are in the archive too, encrypted for --recipient or with a
passphrase: the member secrets.age, which the program age can decrypt. The rest
is not encrypted and contains your mail: keep the file as private as your mail.

Not in the archive: logs, locks, the agent's working folder, and files outside
your home directory, which it names.

Examples:
  agentstateloop backup goulard.tar.gz
  agentstateloop backup - --secrets --recipient age1… | ssh host 'cat >b.tgz'`,
		Flags:  o.flags(),
		Action: p.agentAction(1, 1, o.run),
	}
}

// backupOutput is the JSON output of backup and move.
type backupOutput struct {
	Agent   string    `json:"agent"`
	File    string    `json:"file"`
	Made    time.Time `json:"made"`
	Serial  uint64    `json:"serial"`
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"` // of the files, not compressed
	Final   bool      `json:"final"`
	Sealed  bool      `json:"secrets"`
	Lacks   []string  `json:"missing_secrets"` // keys of agent.toml
	LeftOut []string  `json:"left_out"`
}

func newBackupOutput(file string, m archive.Manifest) backupOutput {
	out := backupOutput{
		Agent: m.Handle, File: file, Made: m.Made, Serial: m.Serial, Files: len(m.Files), Final: m.Final, Sealed: m.Sealed,
		Lacks: []string{}, LeftOut: orEmpty(m.LeftOut),
	}
	for _, f := range m.Files {
		out.Bytes += f.Size
	}
	for _, s := range m.Secrets {
		if !m.Sealed {
			out.Lacks = append(out.Lacks, s.Key)
		}
	}
	return out
}

func (o *backupOptions) run(c *call, a *cycle.Agent) error {
	toStdout := c.arg(0) == "-"
	switch {
	case toStdout && c.json:
		return terminal.Usagef("name a file", "--json and - both use standard output")
	case toStdout && terminal.IsTerminal(c.raw):
		return terminal.Usagef("name a file, or redirect the output", "an archive is not written to a terminal")
	case !toStdout:
		if err := backup.CheckFree(c.arg(0)); err != nil {
			return err
		}
	}
	recipients, err := o.chosen(c)
	if err != nil {
		return err
	}
	b := backup.Backup{Loader: c.loader, Agent: a, Recipients: recipients}
	if toStdout {
		m, err := b.Write(c.ctx, c.raw)
		if err != nil {
			return backupError(err)
		}
		tellBackup(m, func(text string) { c.out.Note("note", "%s", text) })
		return nil
	}
	file, err := filepath.Abs(c.arg(0))
	if err != nil {
		return err
	}
	m, err := b.WriteFile(c.ctx, file)
	if err != nil {
		return backupError(err)
	}
	return c.printBackup(file, m)
}

// backupError adds a hint to an error of a backup.
func backupError(err error) error {
	if errors.Is(err, store.ErrNoState) {
		return terminal.WithHint(err, "it has nothing to back up before its first `"+name+" poll`")
	}
	return err
}

// printBackup prints the archive that was written.
func (c *call) printBackup(file string, m archive.Manifest) error {
	if c.json {
		return c.out.JSON(newBackupOutput(file, m))
	}
	c.out.Printf("wrote %s (mode 0600)\n", file)
	tellBackup(m, func(text string) { c.out.Printf("%s\n", text) })
	return nil
}

// tellBackup prints the content of an archive, and what it lacks.
func tellBackup(m archive.Manifest, say func(string)) {
	out := newBackupOutput("", m)
	size := fmt.Sprintf("%d KiB", (out.Bytes+1023)>>10)
	if out.Bytes >= 10<<20 {
		size = fmt.Sprintf("%d MiB", out.Bytes>>20)
	}
	say(fmt.Sprintf("@%s: %d files, %s", m.Handle, out.Files, size))
	if len(out.Lacks) > 0 {
		say("without these secrets (--secrets adds them): " + strings.Join(out.Lacks, ", "))
	}
	for _, file := range out.LeftOut {
		say("left out: " + file)
	}
}

// readIdentity returns the identities in a file of age-keygen.
func readIdentity(file string) ([]age.Identity, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, terminal.Usagef("", "--identity: %v", err)
	}
	all, err := archive.Identities(string(text))
	if err != nil {
		return nil, terminal.Usagef("`age-keygen -o FILE` writes one", "--identity %s: %v", file, err)
	}
	return all, nil
}
