package cycle

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"agentstateloop/turn"
)

// keepWhole puts an answer that is too long for a mail's text into the output
// box, as a file of its own that goes with the reply.
func (a *Agent) keepWhole(w turnMessage, r *turn.Result) {
	if r.TextFile == "" {
		return
	}
	name := "answer.txt"
	for n := 2; slices.Contains(r.Output, name); n++ {
		name = fmt.Sprintf("answer-%d.txt", n)
	}
	from := r.TextFile
	r.TextFile = ""
	box, err := os.OpenRoot(a.Store.Path(w.dir()))
	if err == nil {
		defer box.Close()
		err = box.Rename(from, path.Join("output", name))
	}
	if err != nil {
		r.Notes = append(r.Notes, "the answer goes on, and the rest could not be kept: "+err.Error())
		return
	}
	r.Output = append(r.Output, name)
	r.Notes = append(r.Notes, "the answer goes on: all of it is in "+name)
}

// diskFull says whether a write failed for want of room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// makeRoom gives up what the agent has left in its output box, since that may
// be what fills the disk: the deliverable must be told all the same. It says
// whether there was anything to give up.
func (a *Agent) makeRoom(w turnMessage, r *turn.Result) bool {
	box := a.Store.Path(path.Join(w.dir(), "output"))
	left, err := os.ReadDir(box)
	if err != nil {
		return false
	}
	var gone []string
	for _, entry := range left {
		ours := strings.HasPrefix(entry.Name(), deliverableFile)
		if !ours && os.RemoveAll(path.Join(box, entry.Name())) == nil {
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
