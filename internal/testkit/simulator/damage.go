package simulator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// damage damages the state file, as a disk or a person would.
func (w *World) damage(s Step) error {
	current, prev := filepath.Join(w.stateDir(), "state.json"), filepath.Join(w.stateDir(), "state.json.prev")
	if strings.HasSuffix(s.Kind, "-both") && w.clock.daysOff() {
		return nil
	}
	if what, ok := strings.CutPrefix(s.Kind, "payload-"); ok {
		return w.damagePayload(what, s.N)
	}
	w.count.happened("damaged: " + s.Kind)
	switch s.Kind {
	case "cursor":
		return w.damageCursor(current)
	case "delete":
		return os.Remove(current)
	case "delete-both":
		return errors.Join(os.Remove(current), os.Remove(prev))
	case "delete-prev":
		return os.Remove(prev)
	case "cut":
		return cutFile(current)
	case "cut-both":
		return errors.Join(cutFile(current), cutFile(prev))
	case "empty":
		return replace(current, nil)
	}
	panic("unknown damage " + s.Kind)
}

// cutFile removes the second half of a file. Other links to the file stay whole.
func cutFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return replace(path, data[:len(data)/2])
}

func replace(path string, data []byte) error {
	tmp := path + ".hurt"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
