package turn

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"agentstateloop/internal/osfile"
)

// maxKeptPrompt is the largest prompt, in bytes, that stays after the attempt. A larger one is
// mostly the message.
const maxKeptPrompt = 256 << 10

// ClearContext empties the context folder of the attempt in dir, except for the files that keep
// names. The agent must have ended. The removed files are copies: of the message, its
// attachments, and earlier output. ClearContext also removes a very large prompt and the home of
// gemini. A file that cannot be removed stays until it is pruned.
func ClearContext(dir string, keep ...string) {
	removeGeminiHome(dir) // its runner may have died before that
	prompt := filepath.Join(dir, promptName)
	if info, err := os.Lstat(prompt); err == nil && info.Size() > maxKeptPrompt {
		_ = os.Remove(prompt)
	}
	box := filepath.Join(dir, contextName)
	if info, err := os.Lstat(box); err != nil || !info.IsDir() {
		return // it was never made, or the agent has replaced it
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

// maxEvidence is the largest output folder, in bytes, that stays after a later attempt has left
// files.
const maxEvidence = 1 << 20

// DropEarlier removes large output folders that no later attempt begins with (EarlierOutput):
// those of attempts older than the newest one that left a file. The attempts range up to the one
// in dir, turns/<turn_id>/<epoch>. own lists the files that the attempt in dir has left.
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

// boxSize returns the total size, in bytes, of the files that can be listed in an output folder.
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
