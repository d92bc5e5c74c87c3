package cycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/turn"
)

// maxPosted limits a text in a mesh message, in bytes of JSON. The rest of a body's 64 KiB is
// for the other fields.
const maxPosted = mesh.MaxMessage - 4<<10

// cutMark replaces the rest of a truncated text.
const cutMark = "\n[cut: the rest did not fit]"

// truncate returns text in at most n bytes, with a mark if it had more.
func truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return plain.Cut(text, n-len(cutMark)) + cutMark
}

// truncateJSON returns text in at most n bytes of JSON, with a mark if it had
// more.
func truncateJSON(text string, n int) string {
	size, end := 0, 0
	for i, r := range text {
		if size <= n-jsonSize(cutMark) {
			end = i
		}
		if size += runeSize(r); size > n {
			return text[:end] + cutMark
		}
	}
	return text
}

// jsonSize returns how many bytes a text takes in JSON, without the quotes.
func jsonSize(text string) int {
	size := 0
	for _, r := range text {
		size += runeSize(r)
	}
	return size
}

// runeSize returns the most bytes that encoding/json needs for r, without its escapes for HTML.
func runeSize(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029', r == utf8.RuneError:
		return 6
	}
	return utf8.RuneLen(r)
}

// roomFor returns how many bytes of JSON a text with these files may take.
func roomFor(files []mesh.File) int {
	if len(files) == 0 {
		return maxPosted
	}
	list, _ := json.Marshal(files) // strings and numbers cannot fail
	return maxPosted - len(list)
}

// replyHops returns the hops of an answer to a message with these hops. It adds us, and drops the
// oldest hop if a message may not have so many. An answer causes no turn, so a dropped hop
// cannot hide a loop.
func replyHops(hops []string, handle string) []string {
	hops = append(slices.Clone(hops), handle)
	return hops[max(0, len(hops)-mesh.MaxHops):]
}

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
		r.Notes = append(r.Notes, "the answer is longer, but the rest could not be saved: "+err.Error())
		return
	}
	r.Output = append(r.Output, name)
	r.Notes = append(r.Notes, "the answer is longer: the full text is in "+name)
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
	r.Notes = append(r.Notes, "the disk was full: to make room for this answer, these files were removed from the output folder: "+strings.Join(gone, ", "))
	return true
}
