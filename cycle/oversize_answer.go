package cycle

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"agentstateloop/internal/osfile"
	"agentstateloop/turn"
)

// keepWhole moves an answer that is too long for a mail's text into the output folder, as a
// file that goes with the reply.
func (d *deliverer) keepWhole(m turnMessage, r *turn.Result) {
	if r.TextFile == "" {
		return
	}
	name := "answer.txt"
	for n := 2; slices.Contains(r.Output, name); n++ {
		name = fmt.Sprintf("answer-%d.txt", n)
	}
	from := r.TextFile
	r.TextFile = ""
	box, err := os.OpenRoot(d.store.Path(m.dir()))
	if err == nil {
		defer box.Close()
		err = box.Rename(from, path.Join("output", name))
	}
	if err != nil {
		r.Notes = append(r.Notes, "the answer is longer, and the rest could not be kept: "+err.Error())
		return
	}
	r.Output = append(r.Output, name)
	r.Notes = append(r.Notes, "the answer is longer: all of it is in "+name)
}

// diskFull reports whether a write failed for lack of disk space.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// makeRoom removes the agent's files from its output folder: they may fill the disk, and the
// deliverable matters more. It reports whether it removed a file.
func (d *deliverer) makeRoom(m turnMessage, r *turn.Result) bool {
	if d.store.CheckFolders(path.Join(m.dir(), "output", deliverableFile)) != nil {
		return false
	}
	box := d.store.Path(path.Join(m.dir(), "output"))
	left, err := os.ReadDir(box)
	if err != nil {
		return false
	}
	var gone []string
	for _, entry := range left {
		ours := strings.HasPrefix(entry.Name(), deliverableFile) || strings.HasPrefix(entry.Name(), fieldsFile)
		if !ours && osfile.RemoveAll(path.Join(box, entry.Name())) == nil {
			gone = append(gone, fmt.Sprintf("%q", entry.Name()))
		}
	}
	if len(gone) == 0 {
		return false
	}
	r.Output, r.TextFile = nil, ""
	r.Notes = append(r.Notes, "the disk was full: to make room for this, these files were removed from the output box: "+strings.Join(gone, ", "))
	return true
}
