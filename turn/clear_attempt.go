package turn

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"agentstateloop/internal/osfile"
)

// maxKeptPrompt is how large a prompt may be, in bytes, that stays after the attempt. A
// larger one is mostly the message.
const maxKeptPrompt = 256 << 10

// ClearContext removes what lies in the context box of the attempt in dir, but not the
// files in it that keep names. The agent must have ended. The rest of the box are
// copies: of the message, of its files, of what an earlier attempt left. So are a very
// large prompt, and the home of gemini. What cannot be removed stays until it is pruned.
func ClearContext(dir string, keep ...string) {
	removeGeminiHome(dir) // its runner may have died
	prompt := filepath.Join(dir, promptName)
	if info, err := os.Lstat(prompt); err == nil && info.Size() > maxKeptPrompt {
		_ = os.Remove(prompt)
	}
	box := filepath.Join(dir, contextName)
	if info, err := os.Lstat(box); err != nil || !info.IsDir() {
		return // it was never made, or the agent has put something else there
	}
	osfile.MakeWritable(box)
	root, err := openOutputBox(box)
	if err != nil {
		return
	}
	defer root.Close()
	folder, err := root.Open(".")
	if err != nil {
		return
	}
	defer folder.Close()
	entries, _ := folder.ReadDir(-1)
	for _, e := range entries {
		if !e.Type().IsRegular() || !slices.Contains(keep, e.Name()) {
			_ = root.RemoveAll(e.Name())
		}
	}
	_ = folder.Chmod(0o500)
}

// maxEvidence is how large an output box may be, in bytes, that stays although a later
// attempt has left files as well.
const maxEvidence = 1 << 20

// DropEarlier removes the large output boxes of the attempts that were made before the
// newest one which left a file, up to the attempt in dir, turns/<turn_id>/<epoch>: no
// later attempt begins with them (EarlierOutput). own are the files that this attempt
// has left.
func DropEarlier(dir string, own []string) {
	newest := dir
	if len(own) == 0 {
		box := EarlierOutput(dir)
		if box == "" {
			return
		}
		newest = filepath.Dir(box)
	}
	last, err := strconv.ParseUint(filepath.Base(newest), 10, 64)
	if err != nil {
		return
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		epoch, err := strconv.ParseUint(e.Name(), 10, 64)
		box := filepath.Join(filepath.Dir(dir), e.Name(), outputName)
		if err == nil && epoch < last && boxSize(box) > maxEvidence {
			_ = osfile.RemoveAll(box)
		}
	}
}

// boxSize returns how many bytes the files of an output box have, as far as they can
// be listed.
func boxSize(box string) (n int64) {
	root, err := openOutputBox(box)
	if err != nil {
		return 0
	}
	defer root.Close()
	l := listing{root: root}
	_ = l.folder(".", 0)
	for _, name := range l.names {
		if info, err := root.Lstat(filepath.FromSlash(name)); err == nil {
			n += info.Size()
		}
	}
	return n
}
