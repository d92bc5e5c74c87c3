package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"agentstateloop/state/store"
)

// lossMatters is how long doctor reports that the key of our Message-IDs was replaced. After that
// the operator's mails answer newer ones.
const lossMatters = 14 * 24 * time.Hour

// checkIDKey checks the key of our Message-IDs. It shows no part of the key.
func (c stateDirCheck) checkIDKey() []Finding {
	const name = "state"
	path := c.store.Path(store.IDKeyFile)
	answers := fmt.Sprintf("an answer to an earlier mail needs @%s in its subject, or the agent's address in To", c.handle)
	key, err := c.store.ReadIDKey()
	switch {
	case errors.Is(err, fs.ErrNotExist) && (c.err != nil || !c.state.IDsKeyed):
		return nil // the next poll creates the first key
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{bad(Warn, name, "restore it from a backup before the next poll, which else makes another: then "+answers, "%s is missing", path)}
	case err != nil:
		return []Finding{bad(Warn, name, "restore it from a backup before the next poll, which else sets it aside: then "+answers, "%v", err)}
	}
	var found []Finding
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		found = append(found, bad(Warn, name, "chmod 600 "+path, "%s has mode %04o, but it is a secret", path, info.Mode().Perm()).by(tighten(path)))
	}
	lost := key.Cause == store.KeyLost || key.Cause == store.KeyDamaged
	if lost && c.now().Sub(key.Made) < lossMatters {
		found = append(found, bad(Info, name, "", "%s was %s and was made again on %s: %s",
			store.IDKeyFile, key.Cause, key.Made.Local().Format(time.DateOnly), answers))
	}
	return found
}
