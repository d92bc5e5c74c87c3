package cycle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// uploadFiles uploads the files of a message, and returns the message to post. Repeating it is
// cheap: the mesh does not read a file again that it holds. A report goes without the files
// that can never go, and names them. Its text is always the same: once a report is on the mesh,
// another one under its id changes nothing.
func (sg *sending) uploadFiles(ctx context.Context, e state.Effect, m mesh.Message) (mesh.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*startWithin)
	defer cancel()
	var unsent []string
	for _, ref := range e.Files {
		err := sg.upload(ctx, e.To, ref)
		if err == nil {
			continue
		}
		err = fmt.Errorf("the file %s: %w", ref.FileName, err)
		if e.Kind != state.Reply || !neverGoes(err) {
			return m, err
		}
		m.Files = slices.DeleteFunc(m.Files, func(f mesh.File) bool { return f.SHA256 == ref.Sum && f.Name == ref.FileName })
		reason := err.Error()
		if errors.Is(err, store.ErrDamaged) { // the error names the copy, but our paths must not go out
			reason = fmt.Sprintf("the file %s: its copy was damaged before it left", ref.FileName)
		}
		unsent = append(unsent, "file not sent: "+plain.Brief(reason))
	}
	if len(unsent) > 0 {
		note := "\n\n[" + strings.Join(unsent, "; ") + "]"
		m.Text = truncateJSON(m.Text, maxPosted-jsonSize(note)-m.Fields.Size()) + note
	}
	return m, nil
}

func (sg *sending) upload(ctx context.Context, to string, ref state.FileRef) error {
	f, err := sg.store.OpenSummed(ref.File, ref.Sum, ref.Size)
	if err != nil {
		return err
	}
	defer f.Close()
	return sg.mesh.Carrier.PutBlob(ctx, to, ref.Sum, ref.Size, f)
}

// neverGoes reports whether a file can never be uploaded: its copy is damaged, or the
// mesh refuses it for good.
func neverGoes(err error) bool {
	if errors.Is(err, store.ErrDamaged) {
		return true
	}
	if _, denied := state.CredentialFailure(err); denied {
		return false
	}
	e, ok := errors.AsType[*mesh.Error](err)
	return ok && !e.Temporary()
}

// uploadFailed is sendFailed for a message that has files. A mesh that has lost a file gets it
// again.
func uploadFailed(e state.Effect, err error) []state.Event {
	events := sendFailed(e, err)
	failed := events[0].(state.SendFailed)
	if errors.Is(err, store.ErrDamaged) {
		failed.Permanent = true
	}
	if conflict, ok := errors.AsType[*mesh.Error](err); ok && conflict.Code == http.StatusConflict {
		failed.Permanent = false
	}
	events[0] = failed
	return events
}
