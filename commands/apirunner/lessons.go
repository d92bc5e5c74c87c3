package apirunner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"agentstateloop/internal/osfile"
	"agentstateloop/state/store"
	"agentstateloop/turn/react"
)

// maxLessons limits that file, in bytes.
const maxLessons = 256 << 10

// lessons stores the lessons about the models of one address.
type lessons struct {
	dir, address string
}

// read returns all lessons, by address and model. Lessons that cannot be read are learned again.
func (l lessons) read() map[string]react.Lesson {
	all := map[string]react.Lesson{}
	data, err := osfile.ReadFile(filepath.Join(l.dir, store.ModelsFile), maxLessons)
	if err == nil {
		_ = json.Unmarshal(data, &all)
	}
	if all == nil {
		all = map[string]react.Lesson{}
	}
	return all
}

func (l lessons) key(model string) string { return l.address + " " + model }

// Of implements react.Lessons.
func (l lessons) Of(model string) react.Lesson { return l.read()[l.key(model)] }

// Learn implements react.Lessons. It replaces the file as a whole.
func (l lessons) Learn(model string, lesson react.Lesson) error {
	all := l.read()
	all[l.key(model)] = all[l.key(model)].With(lesson)
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	if len(data) >= maxLessons {
		return fmt.Errorf("%s would exceed %d bytes", store.ModelsFile, maxLessons)
	}
	name := filepath.Join(l.dir, store.ModelsFile)
	tmp := name + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, name)
}
